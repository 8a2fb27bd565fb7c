-------------------------------- MODULE Lease --------------------------------
(* When the lease of a session ends, and when the servers may expire it:       *)
(* session/internal/lease. At its end the lease lapses: what was held is lost. *)
(* The session goes on, until a server says that it is lost. The client knows  *)
(* only when it has sent requests,                                            *)
(* and when their answers came. Time passes in ticks. README.md says what is *)
(* abstracted away.                                                          *)
(*                                                                           *)
(*   client --requests--> server --requests, reports--> leader               *)
(*          <--answers---        <---answers, pings----                      *)
(*                                                                           *)
(* All four wires keep the order of messages and delay them as long as they  *)
(* like. The leader may be deposed: a later leader knows nothing of the      *)
(* server, and counts the timeout from when it took over. A connection that  *)
(* is cut is followed by one to another server: of the same leader, which    *)
(* may be deposed, or of the newest one. Its handshake asks the leader       *)
(* whether there is such a session.                                          *)
EXTENDS Integers, Sequences

CONSTANTS
  Timeout,  \* of the session, on the clock of the leader
  Margin,   \* lease.go, Terms.Timeout: by so much less the client counts
  Drift,    \* by so much the client's clock may fall behind the leader's
  Report,   \* a leader pings a server at least so often
  Late,     \* by so much later a client that runs may act: the shortest timer of session.go
  Grain,    \* requests that are sent closer together count as one: lease.go, grain
  Sends,    \* how many requests the client sends
  Kinds,    \* of requests: "read", "sync", "commit"
  Freezes,  \* how often the client stops running for a while
  Cuts,     \* how often a connection is lost
  Decrees,  \* how often the servers end the session before its time
  Lapses,   \* how many lapses are looked behind
  Horizon,  \* the time that is looked at
  Broken    \* the rules that a mutant breaks; {} is the protocol

VARIABLES
  now, slip,          \* the leader's clock; by how much the client's is behind
  deposed, took,      \* a later leader has taken over, and when
  touched,            \* when the leader of our server has last heard of the session
  pinged,             \* when it has last sent a ping
  has, decrees,       \* the servers have the session
  heard, pending,     \* the server: it has heard the session since its last report; requests at the leader
  toServer, toLeader, fromLeader, toClient, \* the wires
  link, cuts,         \* of the client: "down", "greeting" until the handshake is answered, "open"
  signs, claims, proved, committed, served, \* the lease of a connection, as in lease.go: proved is its field touched
  base,               \* the newest proof of all connections: stake.go, proved
  sent, newest,       \* requests so far, and when the newest was sent
  lapsed, lapses,     \* "no": there is a lease; "told": it has ended; "open": then it was not proved yet
  lost, frozen, freezes \* what a server has said, and whether the client runs

wires == <<toServer, toLeader, fromLeader, toClient>>
lease == <<signs, claims, proved, committed, served>>
lapse == <<lapsed, lapses>>
attention == <<lost, frozen, freezes>>
client == <<link, cuts, lease, base, sent, newest, lapse, attention>>
leader == <<deposed, took, touched, pinged>>
server == <<heard, pending>>
vars == <<now, slip, leader, has, decrees, server, wires, client>>

Max(x, y) == IF x > y THEN x ELSE y
Min(x, y) == IF x < y THEN x ELSE y
Clock == now - slip \* of the client

(* The session was created at the time 0 by a transaction: lease.go, New.    *)
Init ==
  /\ now = 0 /\ slip = 0
  /\ deposed = FALSE /\ took = 0 /\ touched = 0 /\ pinged = 0
  /\ has = TRUE /\ decrees = Decrees /\ heard = FALSE /\ pending = 0
  /\ toServer = <<>> /\ toLeader = <<>> /\ fromLeader = <<>> /\ toClient = <<>>
  /\ link = "open" /\ cuts = Cuts
  /\ signs = <<>> /\ claims = <<>> /\ proved = 0 /\ committed = 0 /\ served = 0 /\ base = 0
  /\ sent = 0 /\ newest = 0 /\ lapsed = "no" /\ lapses = 0 /\ lost = FALSE /\ frozen = FALSE /\ freezes = Freezes

(* lease.go: Since(false), and Stake.Deadline of a session that is relied on. *)
Since(l) == CASE "the server's answers count" \in Broken -> l.served
              [] "deposed leaders count" \in Broken -> l.proved
              [] OTHER -> Min(l.proved, l.committed)
Deadline == base + Timeout - (IF "no margin" \in Broken THEN 1 ELSE Margin)

(* Behind a lapse there is no deadline until the lease is proved again.       *)
Leased == ~lost /\ lapsed = "no"
Overdue == Leased /\ Clock >= Deadline
\* A connection was lost before the proof. Then the newest answer counts.
Vain == ~lost /\ lapsed = "open" /\ link # "open"
End == served + Timeout - Margin
Acts == ~Leased \/ Clock < Deadline + Late

(* The states that a user of the session knows: session/event.go.            *)
Known == IF lost THEN "lost" ELSE IF link = "open" THEN "connected"
         ELSE IF lapsed = "told" THEN "lapsed" ELSE "suspended"

-----------------------------------------------------------------------------
(* lease.go: Answered. What an answer proves. by: the least part of the       *)
(* ensemble that has answered.                                               *)

Select(q, P(_)) == SelectSeq(q, P)
Last(q) == q[Len(q)]

Answered(l, at, then, by) ==
  LET byLeader == by # "read"
      done == Select(l.claims, LAMBDA c : c.left <= at)
      told == IF byLeader /\ done # <<>> THEN Max(l.proved, Last(done).sent) ELSE l.proved
      old == Select(l.signs, LAMBDA s : s.answered <= at - Report)
      direct == "two requests are enough" \in Broken /\ byLeader /\ old # <<>>
      rest == IF byLeader THEN Select(l.claims, LAMBDA c : c.left > at) ELSE l.claims
      claimed == IF byLeader /\ old # <<>> THEN Append(rest, [sent |-> Last(old).sent, left |-> then]) ELSE rest
      fresh == IF byLeader THEN Select(l.signs, LAMBDA s : s.answered > at - Report) ELSE l.signs
      counts == fresh = <<>> \/ at - Last(fresh).sent > Grain
      added == IF counts THEN Append(fresh, [sent |-> at, answered |-> then]) ELSE fresh
      \* forget: signs before the newest of which a report will have left.
      after == Select(added, LAMBDA s : s.answered <= at - Report)
      kept == IF Len(after) > 1 THEN SubSeq(added, Len(after), Len(added)) ELSE added
  IN [signs |-> kept, claims |-> claimed,
      proved |-> IF direct THEN Max(told, Last(old).sent) ELSE told,
      committed |-> IF by = "commit" THEN Max(l.committed, at) ELSE l.committed,
      served |-> Max(l.served, at)]

Lease == [signs |-> signs, claims |-> claims, proved |-> proved, committed |-> committed, served |-> served]

-----------------------------------------------------------------------------
(* The client.                                                               *)

Runs == ~frozen /\ ~lost

Send(kind) ==
  /\ Runs /\ link = "open" /\ Acts /\ sent < Sends
  /\ sent' = sent + 1 /\ newest' = Clock
  /\ toServer' = Append(toServer, [at |-> Clock, kind |-> kind])
  /\ UNCHANGED <<now, slip, leader, has, decrees, server, toLeader, fromLeader, toClient, link, cuts, lease, base, lapse, attention>>

(* stake.go: Prove. A lapse ends with a proof of which enough is left.        *)
Enough(b) == b + Timeout - Margin - Clock > Timeout \div 4
Hold(l) ==
  LET b == Max(base, Since(l)) IN
  /\ signs' = l.signs /\ claims' = l.claims /\ proved' = l.proved /\ committed' = l.committed /\ served' = l.served
  /\ base' = IF lapsed # "no" /\ "proofs of before count" \in Broken THEN base ELSE b
  /\ lapsed' = IF lapsed # "no" THEN IF Enough(b) THEN "no" ELSE "open" ELSE "no"
  /\ UNCHANGED lapses

Receive ==
  LET a == Head(toClient) IN
  /\ Runs /\ link = "open" /\ toClient # <<>>
  /\ toClient' = Tail(toClient)
  /\ Hold(Answered(Lease, a.at, Clock, a.kind))
  /\ UNCHANGED <<now, slip, leader, has, decrees, server, toServer, toLeader, fromLeader, link, cuts, sent, newest, attention>>

(* What was under way between the client and the server is lost, and so are   *)
(* the answers of the leader. A client that does not run learns of it later:  *)
(* then it is cut later.                                                     *)
Breaks ==
  /\ link' = "down"
  /\ toServer' = <<>> /\ toClient' = <<>> /\ pending' = 0
  /\ toLeader' = Select(toLeader, LAMBDA m : m.k = "report") /\ fromLeader' = Select(fromLeader, LAMBDA m : m.k = "ping")
Cut ==
  /\ Runs /\ link # "down" /\ cuts > 0
  /\ Breaks /\ cuts' = cuts - 1
  /\ UNCHANGED <<now, slip, leader, has, decrees, heard, lease, base, sent, newest, lapse, attention>>

(* The next server: nothing that the last one has heard is reported any more, *)
(* which is the worst case.                                                  *)
Dial(toNewest) ==
  /\ Runs /\ link = "down" /\ Acts
  /\ toNewest => deposed
  /\ deposed' = (deposed /\ ~toNewest) /\ touched' = (IF toNewest THEN took ELSE touched) /\ pinged' = now
  /\ heard' = FALSE /\ pending' = 0 /\ toLeader' = <<>> /\ fromLeader' = <<>>
  /\ link' = "greeting" /\ toServer' = <<[at |-> Clock, kind |-> "handshake"]>>
  /\ UNCHANGED <<now, slip, took, has, decrees, toClient, cuts, lease, base, sent, newest, lapse, attention>>

(* lease.go: New. The leader has agreed, and no quorum. Or the servers have   *)
(* no such session: then it is lost.                                         *)
Greeted ==
  LET a == Head(toClient)
      counts == "handshakes are committed" \in Broken \/ (lapsed # "no" /\ "a lapse needs no proof" \in Broken)
      quorum == IF counts THEN a.at ELSE 0 IN
  /\ Runs /\ link = "greeting" /\ toClient # <<>>
  /\ toClient' = Tail(toClient)
  /\ IF a.kind = "gone"
     THEN lost' = TRUE /\ UNCHANGED <<link, lease, base, lapse>>
     ELSE /\ link' = "open" /\ UNCHANGED lost
          /\ Hold([signs |-> <<>>, claims |-> <<>>, proved |-> a.at, committed |-> quorum, served |-> a.at])
  /\ UNCHANGED <<now, slip, leader, has, decrees, server, toServer, toLeader, fromLeader, cuts, sent, newest, frozen, freezes>>

(* conn/stake.go: Epoch.Lapse. At the deadline what was held is lost,          *)
(* whatever the servers say. No answer on the connection counts any more. One *)
(* that is not open yet may still be.                                        *)
Lapse ==
  /\ Overdue
  /\ lapsed' = "told" /\ lapses' = lapses + 1
  /\ IF link = "open" THEN Breaks ELSE UNCHANGED <<wires, link, pending>>
  /\ UNCHANGED <<now, slip, leader, has, decrees, heard, cuts, lease, base, sent, newest, lost, freezes>>
Expend == Runs /\ "no lapse" \notin Broken /\ Lapse /\ UNCHANGED frozen

\* Whoever waits for the servers learns that they are away. There is nothing to lose.
Tell ==
  /\ Runs /\ Vain /\ Clock >= End
  /\ lapsed' = "told"
  /\ UNCHANGED <<now, slip, leader, has, decrees, server, wires, link, cuts, lease, base, sent, newest, lapses, attention>>

\* The process is stopped for a while. The first thing that it does afterwards is to look at the clock.
Freeze ==
  /\ Runs /\ freezes > 0
  /\ frozen' = TRUE /\ freezes' = freezes - 1
  /\ UNCHANGED <<now, slip, leader, has, decrees, server, wires, link, cuts, lease, base, sent, newest, lapse, lost>>
Thaw ==
  /\ frozen /\ frozen' = FALSE
  /\ IF Overdue /\ "thaws without a look" \notin Broken THEN Lapse
     ELSE UNCHANGED <<now, slip, leader, has, decrees, server, wires, link, cuts, lease, base, sent, newest, lapse, lost, freezes>>

-----------------------------------------------------------------------------
(* The server and its leader.                                                *)

\* Requests are answered in order, so a read waits for those at the leader.
Serve ==
  LET r == Head(toServer) IN
  /\ toServer # <<>> /\ toServer' = Tail(toServer)
  /\ heard' = (heard \/ r.kind # "handshake")
  /\ IF r.kind = "read"
     THEN /\ pending = 0
          /\ toClient' = Append(toClient, r) /\ UNCHANGED <<pending, toLeader>>
     ELSE /\ toLeader' = Append(toLeader, [k |-> "request", r |-> r])
          /\ pending' = pending + 1 /\ UNCHANGED toClient
  /\ UNCHANGED <<now, slip, leader, has, decrees, fromLeader, client>>

(* A ping is answered by a report of the sessions that the server has heard.   *)
(* One without our session changes nothing.                                  *)
Hear ==
  LET m == Head(fromLeader) IN
  /\ fromLeader # <<>> /\ fromLeader' = Tail(fromLeader)
  /\ IF m.k = "ping"
     THEN /\ toLeader' = IF heard THEN Append(toLeader, [k |-> "report"]) ELSE toLeader
          /\ heard' = FALSE /\ UNCHANGED <<pending, toClient>>
     ELSE /\ toClient' = Append(toClient, m.r) /\ pending' = pending - 1
          /\ UNCHANGED <<toLeader, heard>>
  /\ UNCHANGED <<now, slip, leader, has, decrees, toServer, client>>

(* Only a leader that a quorum follows commits, and only for a session that it *)
(* has. A deposed one still answers syncs, counts reports, and agrees to       *)
(* handshakes.                                                               *)
Lead ==
  LET m == Head(toLeader)
      greets == m.k = "request" /\ m.r.kind = "handshake"
      knows == has \/ deposed
      answer == IF greets /\ ~knows THEN [m.r EXCEPT !.kind = "gone"] ELSE m.r IN \* of a request
  /\ toLeader # <<>> /\ toLeader' = Tail(toLeader)
  /\ touched' = IF m.k = "report" \/ (greets /\ knows) THEN now ELSE touched
  /\ m.k = "request" => m.r.kind # "commit" \/ (~deposed /\ has)
  /\ fromLeader' = IF m.k = "request" THEN Append(fromLeader, [k |-> "answer", r |-> answer]) ELSE fromLeader
  /\ UNCHANGED <<now, slip, deposed, took, pinged, has, decrees, server, toServer, toClient, client>>
Depose ==
  /\ ~deposed /\ deposed' = TRUE /\ took' = now
  /\ UNCHANGED <<now, slip, touched, pinged, has, decrees, server, wires, client>>

\* The newest leader may expire the session.
Expires == now >= (IF deposed THEN took ELSE touched) + Timeout
Expire ==
  /\ has /\ Expires
  /\ has' = FALSE
  /\ UNCHANGED <<now, slip, leader, decrees, server, wires, client>>

\* An operator has the servers end the session. Nothing is promised then.
Decree ==
  /\ has /\ decrees > 0
  /\ has' = FALSE /\ decrees' = decrees - 1
  /\ UNCHANGED <<now, slip, leader, server, wires, client>>

(* Time does not pass over a deadline. A ping goes out when it is due: the     *)
(* fewer pings, the fewer reports. Pings that wait together count as one:    *)
(* what they have reported, the last one may report alone.                   *)
Pass(d) ==
  LET due == now + d = pinged + Report
      waits == fromLeader # <<>> /\ Last(fromLeader).k = "ping" IN
  /\ d > 0 /\ now + d <= Horizon /\ now + d <= pinged + Report
  /\ frozen \/ ~Leased \/ Clock + d <= Deadline + Late \/ "no lapse" \in Broken
  /\ frozen \/ ~Vain \/ Clock + d <= End + Late
  /\ now' = now + d
  /\ slip' \in slip..Min(slip + d, Drift)
  /\ pinged' = IF due THEN now' ELSE pinged
  /\ fromLeader' = IF due /\ ~waits THEN Append(fromLeader, [k |-> "ping"]) ELSE fromLeader
  /\ UNCHANGED <<deposed, took, touched, has, decrees, server, toServer, toLeader, toClient, client>>

Connects == Greeted \/ Cut \/ \E toNewest \in BOOLEAN : Dial(toNewest)
Attends == Expend \/ Tell \/ Freeze \/ Thaw
Leads == Hear \/ Lead \/ Depose \/ Expire \/ Decree
Next ==
  ~lost /\ lapses <= Lapses
        /\ \/ newest < Clock /\ \E kind \in Kinds : Send(kind) \* at most one in a tick
           \/ Receive \/ Connects \/ Attends \/ Serve \/ Leads \/ Pass(1) \* behind a loss nothing is promised
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* session/doc.go: a client that counts on its lease is never one whose        *)
(* session the servers may have given away. A process that does not run      *)
(* counts on it until it runs again.                                         *)
GivenAway == Expires \/ (~has /\ decrees = Decrees)
ToldInTime == GivenAway => ~Leased \/ frozen

\* A lapse ends with a lease.
LapseEnds == [][lapsed # "no" /\ lapsed' = "no" => ~Overdue']_lapsed

(* Not promises: TLC must find that a lease is renewed, and another behind a   *)
(* lapse.                                                                    *)
NeverRenewed == base = 0
NeverRegained == lapses > 0 => lapsed # "no"
=============================================================================
