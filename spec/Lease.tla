-------------------------------- MODULE Lease --------------------------------
(* When a session counts itself as lost, and when the servers may expire it:  *)
(* session/internal/lease. The client knows only when it has sent requests,  *)
(* and when their answers came. Time passes in ticks. README.md says what is *)
(* abstracted away.                                                          *)
(*                                                                           *)
(*   client --requests--> server --requests, reports--> leader               *)
(*          <--answers---        <---answers, pings----                      *)
(*                                                                           *)
(* All four wires keep the order of messages and delay them as long as they  *)
(* like. The leader may be deposed: a later leader knows nothing of the      *)
(* server, and counts the timeout from when it took over.                    *)
EXTENDS Integers, Sequences

CONSTANTS
  Timeout,  \* of the session, on the clock of the leader
  Margin,   \* lease.go, Terms.Timeout: by so much less the client counts
  Drift,    \* by so much the client's clock may fall behind the leader's
  Report,   \* a leader pings a server at least so often
  Sends,    \* how many requests the client sends
  Kinds,    \* of requests: "read", "sync", "commit"
  Freezes,  \* how often the client stops running for a while
  Horizon,  \* the time that is looked at
  Broken    \* the rules that a mutant breaks; {} is the protocol

VARIABLES
  now, slip,          \* the leader's clock; by how much the client's is behind
  deposed, took,      \* a later leader has taken over, and when
  touched,            \* when the leader of our server has last heard of the session
  pinged,             \* when it has last sent a ping
  heard, pending,     \* the server: it has heard the session since its last report; requests at the leader
  toServer, toLeader, fromLeader, toClient, \* the wires
  signs, claims, proved, committed, served, \* the client's lease, as in lease.go: proved is its field touched
  sent, newest,       \* requests so far, and when the newest was sent
  lost, frozen, freezes \* what the client knows, and whether it runs

wires == <<toServer, toLeader, fromLeader, toClient>>
lease == <<signs, claims, proved, committed, served>>
client == <<lease, sent, newest, lost, frozen, freezes>>
leader == <<deposed, took, touched, pinged>>
vars == <<now, slip, leader, heard, pending, wires, client>>

Max(x, y) == IF x > y THEN x ELSE y
Min(x, y) == IF x < y THEN x ELSE y
Clock == now - slip \* of the client

(* The session was created at the time 0 by a transaction: lease.go, New.    *)
Init ==
  /\ now = 0 /\ slip = 0
  /\ deposed = FALSE /\ took = 0 /\ touched = 0 /\ pinged = 0
  /\ heard = FALSE /\ pending = 0
  /\ toServer = <<>> /\ toLeader = <<>> /\ fromLeader = <<>> /\ toClient = <<>>
  /\ signs = <<>> /\ claims = <<>> /\ proved = 0 /\ committed = 0 /\ served = 0
  /\ sent = 0 /\ newest = 0 /\ lost = FALSE /\ frozen = FALSE /\ freezes = Freezes

(* lease.go: Since(false), and Stake.Deadline of a session that is relied on. *)
Base == CASE "the server's answers count" \in Broken -> served
          [] "deposed leaders count" \in Broken -> proved
          [] OTHER -> Min(proved, committed)
Deadline == Base + Timeout - (IF "no margin" \in Broken THEN 1 ELSE Margin)
Overdue == Clock >= Deadline

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
      added == Append(fresh, [sent |-> at, answered |-> then])
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

Send(kind) ==
  /\ ~frozen /\ ~Overdue /\ sent < Sends /\ newest < Clock \* at most one in a tick
  /\ sent' = sent + 1 /\ newest' = Clock
  /\ toServer' = Append(toServer, [at |-> Clock, kind |-> kind])
  /\ UNCHANGED <<now, slip, leader, heard, pending, toLeader, fromLeader, toClient, lease, lost, frozen, freezes>>

Receive ==
  LET a == Head(toClient)
      l == Answered(Lease, a.at, Clock, a.kind)
  IN /\ ~frozen /\ toClient # <<>>
     /\ toClient' = Tail(toClient)
     /\ signs' = l.signs /\ claims' = l.claims /\ proved' = l.proved /\ committed' = l.committed /\ served' = l.served
     /\ UNCHANGED <<now, slip, leader, heard, pending, toServer, toLeader, fromLeader, sent, newest, lost, frozen, freezes>>

\* At the deadline the session is lost, whatever the servers say.
Lose ==
  /\ ~frozen /\ Overdue
  /\ lost' = TRUE
  /\ UNCHANGED <<now, slip, leader, heard, pending, wires, lease, sent, newest, frozen, freezes>>

\* The process is stopped for a while. The first thing that it does afterwards is to look at the clock.
Freeze ==
  /\ ~frozen /\ freezes > 0
  /\ frozen' = TRUE /\ freezes' = freezes - 1
  /\ UNCHANGED <<now, slip, leader, heard, pending, wires, lease, sent, newest, lost>>
Thaw ==
  /\ frozen /\ frozen' = FALSE
  /\ lost' = (Overdue /\ "thaws without a look" \notin Broken)
  /\ UNCHANGED <<now, slip, leader, heard, pending, wires, lease, sent, newest, freezes>>

-----------------------------------------------------------------------------
(* The server and its leader.                                                *)

\* Requests are answered in order, so a read waits for those at the leader.
Serve ==
  LET r == Head(toServer) IN
  /\ toServer # <<>> /\ toServer' = Tail(toServer)
  /\ heard' = TRUE
  /\ IF r.kind = "read"
     THEN /\ pending = 0
          /\ toClient' = Append(toClient, r) /\ UNCHANGED <<pending, toLeader>>
     ELSE /\ toLeader' = Append(toLeader, [k |-> "request", r |-> r, heard |-> FALSE])
          /\ pending' = pending + 1 /\ UNCHANGED toClient
  /\ UNCHANGED <<now, slip, leader, fromLeader, client>>

\* A ping is answered by a report of the sessions that the server has heard.
Hear ==
  LET m == Head(fromLeader) IN
  /\ fromLeader # <<>> /\ fromLeader' = Tail(fromLeader)
  /\ IF m.k = "ping"
     THEN /\ toLeader' = Append(toLeader, [k |-> "report", r |-> [at |-> 0, kind |-> ""], heard |-> heard])
          /\ heard' = FALSE /\ UNCHANGED <<pending, toClient>>
     ELSE /\ toClient' = Append(toClient, m.r) /\ pending' = pending - 1
          /\ UNCHANGED <<toLeader, heard>>
  /\ UNCHANGED <<now, slip, leader, toServer, client>>

\* Only a leader that a quorum follows commits. A deposed one still answers syncs, and counts reports.
Lead ==
  LET m == Head(toLeader) IN
  /\ toLeader # <<>> /\ toLeader' = Tail(toLeader)
  /\ touched' = IF m.k = "report" /\ m.heard THEN now ELSE touched
  /\ fromLeader' = IF m.k = "request" /\ (m.r.kind = "sync" \/ ~deposed)
                   THEN Append(fromLeader, [k |-> "answer", r |-> m.r]) ELSE fromLeader
  /\ m.k = "request" => m.r.kind = "sync" \/ ~deposed
  /\ UNCHANGED <<now, slip, deposed, took, pinged, heard, pending, toServer, toClient, client>>
Depose ==
  /\ ~deposed /\ deposed' = TRUE /\ took' = now
  /\ UNCHANGED <<now, slip, touched, pinged, heard, pending, wires, client>>

(* Time does not pass over a deadline. A ping goes out when it is due: the     *)
(* fewer pings, the fewer reports.                                           *)
Tick ==
  LET due == now + 1 - pinged >= Report IN
  /\ now < Horizon /\ (frozen \/ ~Overdue)
  /\ now' = now + 1
  /\ slip' \in {slip, Min(slip + 1, Drift)}
  /\ pinged' = IF due THEN now + 1 ELSE pinged
  /\ fromLeader' = IF due THEN Append(fromLeader, [k |-> "ping", r |-> [at |-> 0, kind |-> ""]]) ELSE fromLeader
  /\ UNCHANGED <<deposed, took, touched, heard, pending, toServer, toLeader, toClient, client>>

Next ==
  ~lost /\ \/ \E kind \in Kinds : Send(kind) \* behind a loss nothing is promised
           \/ Receive \/ Lose \/ Freeze \/ Thaw \/ Serve \/ Hear \/ Lead \/ Depose \/ Tick
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* session/doc.go: the session is lost for its client before the servers      *)
(* expire it. A process that does not run believes in it until it runs again. *)
Expires == now >= (IF deposed THEN took ELSE touched) + Timeout \* the newest leader may do it
ToldInTime == Expires => lost \/ frozen

(* Not a promise: TLC must find that a lease is renewed.                      *)
NeverRenewed == Base = 0
=============================================================================
