------------------------------ MODULE LeaseTrace ------------------------------
(* Is a run of a real session a behaviour of Lease? As in LineTrace.tla: an    *)
(* observer has seen, at each moment of a change, the requests and answers on *)
(* the client's wire, what the user of the session knows, whether the servers *)
(* have the session, and the faults. Hidden are the messages beyond the       *)
(* client's wire, the leader's count, and the client's lease.                *)
(*                                                                           *)
(* An observation has                                                        *)
(*   at          its time, in ticks of a microsecond                         *)
(*   sent, came  the requests and the answers so far, without handshakes     *)
(*   asked       the kinds of the requests that were sent at this moment     *)
(*   link        the connection, as in Lease.tla                             *)
(*   vis         what the user knows                                         *)
(*   has, deposed, frozen   as in Lease.tla                                  *)
EXTENDS Lease, LeaseRun, TLC

VARIABLES
  seen, \* so many observations are explained
  came  \* so many answers have come

traced == <<vars, seen, came>>

\* The connection of a session that is lost means nothing.
Shows(o) ==
  /\ now = o.at /\ sent = o.sent /\ came = o.came
  /\ Known = o.vis /\ has = o.has /\ deposed = o.deposed /\ frozen = o.frozen
  /\ lost \/ link = o.link

(* Before the moment of the next observation p, all is as the last one says.  *)
(* At that moment each part has its old or its new value, and a connection    *)
(* may break and be replaced at once, or open and break.                     *)
Between(o, p) ==
  IF now < p.at
  THEN Shows([o EXCEPT !.at = now])
  ELSE /\ now = p.at /\ o.sent <= sent /\ sent <= p.sent /\ o.came <= came /\ came <= p.came
       /\ Known \in {o.vis, p.vis, "suspended"} \cup (IF o.link # p.link THEN {"connected"} ELSE {}) /\ has \in {o.has, p.has}
       /\ deposed \in {o.deposed, p.deposed} /\ frozen \in {o.frozen, p.frozen}
       /\ lost \/ link = o.link \/ o.link # p.link

\* Time passes until the next observation, or until a ping is due.
Until == Min(Run[seen + 1].at, pinged + Report) - now

(* So many answers still come on this connection. A request without an answer  *)
(* need not be served: the less the servers have heard, the more they may do. *)
Coming ==
  LET ends == {i \in (seen + 1)..Len(Run) : Run[i].link # link \/ Run[i].vis = "lost"} \cup {Len(Run)}
      end == Run[CHOOSE i \in ends : \A j \in ends : i <= j]
      opens == end.link = "open" \/ end.vis = "lost" \/ (lapsed = "told" /\ end.vis = "suspended")
  IN IF link = "open" THEN end.came - came ELSE IF opens THEN 1 ELSE 0
Serves == Serve /\ pending + Len(toClient) < Coming

Asks == \E i \in 1..Len(Run[seen + 1].asked) : sent = Run[seen].sent + i - 1 /\ Send(Run[seen + 1].asked[i])
Answers == Receive /\ came' = came + 1
Others ==
  /\ Asks \/ Connects \/ Attends \/ Serves \/ Leads \/ Pass(Until)
  /\ came' = came

TraceInit == Init /\ seen = 1 /\ came = 0 /\ Shows(Run[1])
TraceNext ==
  /\ seen < Len(Run) /\ (Answers \/ Others)
  /\ \/ seen' = seen + 1 /\ Shows(Run[seen])' /\ (TLCGet(1) < seen' => TLCSet(1, seen') /\ PrintT(<<"explained", seen'>>))
     \/ seen' = seen /\ Between(Run[seen], Run[seen + 1])'
TraceSpec == TraceInit /\ [][TraceNext]_traced

ASSUME TLCSet(1, 1)
NotExplained == seen < Len(Run)
=============================================================================
