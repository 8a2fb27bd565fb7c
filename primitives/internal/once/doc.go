// Package once does a write once or not at all, whatever reply is lost. Others call it an
// idempotent write, or a write with a request marker.
//
// A write is a transaction of any operations. Before these stands a write to a marker: an ephemeral
// node of this client, at the version that the client knows. Its data becomes the number of the
// write. So of all attempts of one write at most one is done, and after a lost reply the marker
// says whether an attempt was.
//
// # Events of a write
//
// [Write] is the machine of one write. Its inputs come in this order, but for Abandoned, which may
// come at any time; the text behind an input says its meaning:
//
//	write    = Granted(none) making attempts | Granted(marker) attempts | Granted(bare) bare
//	making   = Made | Made(no directory) Ensured making | Made(passes) making
//	         | Made(not authorized) bare
//	bare     = Sent                                    done, or refused, without a marker
//	         | Sent(reply lost)                        unknown
//	attempts = Sent                                    done
//	         | Sent(operation refused)                 refused
//	         | Sent(lapsed)                            refused, if it rests on what was read before
//	         | Sent(marker gone) making attempts       nothing is in doubt: the marker is made anew
//	         | Sent(not sent, session over) making attempts
//	         | Sent(marker changed) Looked attempts    nor is it if another client has written to it
//	         | Sent(reply lost) looking
//	looking  = Looked(the number of the write)         done
//	         | Looked(the known version) again         not done so far: it is sent again
//	         | Looked(the known version) Voided        lost too often: refused as in again
//	         | Looked(anything else)                   unknown: the marker is not as this client left it
//	again    = Sent | Sent(reply lost) looking | Sent(marker changed) looking
//	         | Sent(operation refused, or lapsed) Voided  refused: no attempt can be done any more
//	         | Sent(operation refused) Voided(marker changed) looking
//
// Requests that fail with an error that passes are repeated, which is not shown. The caller gets
// one answer: the results of the operations, none of them if the reply was lost; or an error. If
// that wraps [session.ErrUnknownOutcome] the write may have been done, or be done a little later;
// with any other it was not, and will not be.
//
// # Guarantees
//
// A write that belongs to an epoch is done in that or not at all. If its outcome is in doubt at the
// end of the epoch, the answer is unknown. A write of any epoch (0) goes on in the next: with
// another marker if nothing is in doubt, and otherwise while its marker is there, which goes with
// the session that made it. No attempt is sent in another session than that: there the marker is
// missing, as it is after an attempt that was done. No attempt of a write that rests on what was
// read before is sent when the session has lapsed since: other data may have come in its place.
//
// Servers may come back with older data. If these lack the changes of an attempt, the marker lacks
// its number. If that marker has not the known version either, the outcome is unknown
// (docs/adr/0041).
//
// A server closes the connection on a request that is too large for it, and says nothing. So a
// large transaction whose reply was lost twice is given up, if its marker says that it was not
// done, with [session.ErrTooLarge]. [Writer.Takes] then recommends half of its size, for an hour:
// servers may be replaced.
//
// In short: an answer without "unknown" is true.
package once
