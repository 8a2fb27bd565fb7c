-------------------------------- MODULE Line --------------------------------
(* Contenders that stand in line for one path, first come, first served:     *)
(* package primitives/internal/line with the rule First, as locks use it.    *)
(*                                                                           *)
(* Every operator names the Go function whose rule it states. The steps of a *)
(* machine are functions from a machine to a turn: the next machine, and the *)
(* requests that it sends (step.go: "the protocol is a pure function").      *)
(* README.md says what is abstracted away.                                   *)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
  Contenders,     \* each makes one attempt after another until it has held, or left
  Leavers,        \* these may leave while they wait, too
  Together,       \* these share a session; every other contender has one of its own
  Brief,          \* rule.go: a contender watches the two directly ahead, not only the farther
  LeaseHolds,     \* the servers expire a session after its lease has ended for its client: Lease.tla
  Cuts, Lapses, Kills, Crashes, Strikes, \* how often each fault happens
  Lates,          \* creations that the server executes after their connection was cut
  Broken          \* the rules that a mutant breaks; {} is the protocol

VARIABLES
  nodes,   \* the znodes of the line: [n, c, a, s, e] = number (and czxid), contender, attempt, session, epoch
  next,    \* the number of the next znode
  live,    \* the sessions that the servers know: <<session, epoch>>
  wat,     \* the watches on the servers: <<contender, number>>
  late,    \* creations that may still be executed: <<contender, attempt, epoch>>
  epoch,   \* of each session, as its client counts
  conn,    \* whether each session is connected
  lapsed,  \* whether its lease has ended, and no connection has begun since
  crashed, \* whether its client has crashed
  me,      \* the machine of each contender
  out, in, \* its requests under way, and the answers and events on their way to it, in the order of the wire
  struck,  \* the numbers of the znodes that an operator has deleted
  last,    \* the token of the newest grant
  untrue,  \* a grant was not true at the moment of the message that it rests on
  left     \* the faults that may still happen

vars == <<nodes, next, live, wat, late, epoch, conn, lapsed, crashed, me, out, in, struck, last, untrue, left>>
server == <<nodes, next, live, wat, late>>
ghosts == <<struck, last, untrue>>

Fault == {"cut", "lapse", "kill", "crash", "strike", "late"}

SessionOf == [c \in Contenders |-> IF c \in Together THEN CHOOSE d \in Together : TRUE ELSE c]
Sessions == {SessionOf[c] : c \in Contenders}

Alike == Permutations(Contenders) \* for SYMMETRY, if no two share a session

Max(S) == CHOOSE x \in S : \A y \in S : x >= y
Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Of(s) == {c \in Contenders : SessionOf[c] = s}
Numbers == {x.n : x \in nodes}
Node(n) == CHOOSE x \in nodes : x.n = n
Own(c, a) == {x \in nodes : x.c = c /\ x.a = a}

-----------------------------------------------------------------------------
(* The machine: machine.go. The states of step.go, without preparing (the     *)
(* parent exists) and claiming (First does not claim).                        *)

Fresh == [ st |-> "outside", att |-> 0,
           n |-> 0, known |-> FALSE,      \* our node, and whether its czxid is known
           owned |-> FALSE, unw |-> FALSE, \* the watch on it is confirmed; it is yet to be requested
           dup |-> FALSE,                 \* maybeDuplicate: a create in doubt was repeated
           listing |-> FALSE,
           target |-> 0, beside |-> {},   \* the numbers of the nodes that we watch
           grants |-> FALSE, same |-> FALSE, \* deletionGrants, sameSession
           conf |-> {},                   \* the watches that are confirmed
           rem |-> {},                    \* the deletions that are not: numbers; 0 means all nodes of the attempt
           vis |-> "in line" ]            \* what the user knows: in line, held, lost, released

Standing(m) == m.st \in {"waiting", "held"}
Subs(m) == ({m.target} \cup m.beside \cup (IF m.unw THEN {} ELSE {m.n})) \ {0}

\* A turn: the next machine, and its requests in their order.
Turn(m, do) == [m |-> m, do |-> do]
Then(t, F(_)) == LET u == F(t.m) IN Turn(u.m, t.do \o u.do)
Do(m, op, n) == <<[op |-> op, a |-> m.att, n |-> n]>>

\* machine.go: look. A list that is under way suffices.
Look(m) ==
  IF m.listing THEN Turn([m EXCEPT !.grants = FALSE], <<>>)
  ELSE Turn([m EXCEPT !.grants = FALSE, !.listing = TRUE], Do(m, "list", 0))

\* machine.go: watchOwn.
WatchOwn(m) ==
  IF ~m.unw \/ "no own watch" \in Broken THEN Turn(m, <<>>)
  ELSE Turn([m EXCEPT !.unw = FALSE], Do(m, "watch", m.n))

\* machine.go: unwatch, forgetTarget.
Unwatch(m) == [m EXCEPT !.target = 0, !.beside = {}, !.grants = FALSE, !.same = FALSE, !.conf = @ \cap {m.n}]
Forget(m) == [m EXCEPT !.target = 0, !.grants = FALSE, !.same = FALSE, !.conf = @ \ {m.target}]

\* joining.go: enter, join. A new attempt has a GUID of its own.
Join(m) == Turn([m EXCEPT !.st = "joining"], Do(m, "create", 0))
Enter(m) == Join([Fresh EXCEPT !.att = m.att + 1])

\* machine.go: depart. What may stand for us is deleted.
Depart(m, vis) ==
  LET u == [Unwatch(m) EXCEPT !.vis = vis, !.listing = FALSE]
      all == (m.dup \/ m.st \in {"joining", "recovering"}) /\ "no cleaning" \notin Broken
  IN CASE m.st = "clearing" -> Turn([u EXCEPT !.st = "leaving"], <<>>)
       [] all -> Turn([u EXCEPT !.st = "leaving", !.n = 0, !.rem = @ \cup {0}], Do(m, "delete", 0))
       [] ~all /\ m.n # 0 /\ m.st # "clearing" -> Turn([u EXCEPT !.st = "leaving", !.rem = @ \cup {m.n}], Do(m, "delete", m.n))
       [] OTHER -> Turn([u EXCEPT !.st = "ended"], <<>>)

\* joining.go: vanish. Our node is gone: a holder has lost, a waiter joins anew.
Vanish(m) ==
  LET g == [m EXCEPT !.n = 0, !.known = FALSE, !.owned = FALSE]
  IN CASE m.st = "held" -> Depart(g, "lost")
       [] m.st # "held" /\ m.dup /\ "no cleaning" \notin Broken ->
            Turn([Fresh EXCEPT !.st = "clearing", !.att = m.att, !.rem = m.rem \cup {0}], Do(m, "delete", 0))
       [] OTHER -> Then(Turn(Unwatch(g), <<>>), Enter)

\* holding.go: first, grant. Then only our own node is watched.
First(m) == WatchOwn([Unwatch(m) EXCEPT !.st = "held", !.vis = "held"])

\* joining.go: joined. The transaction's answer counts the children: if we are the only one, it is the grant.
Joined(m, n, kids) ==
  LET j == [m EXCEPT !.st = "waiting", !.n = n, !.known = TRUE, !.unw = TRUE]
  IN IF kids = 1 THEN First(j) ELSE Look(j)

\* joining.go: recovered. A list shows what a create in doubt has left.
Recovered(m, ours) ==
  IF ours = {} \/ "no recovery" \in Broken THEN Join([m EXCEPT !.dup = TRUE])
  ELSE Then(WatchOwn([m EXCEPT !.st = "waiting", !.n = Min(ours), !.unw = TRUE]), Look)

\* first.go: Locate, for contenders that all exclude each other.
Locate(ahead) ==
  LET one == Max(ahead)
      two == IF Cardinality(ahead) > 1 THEN Max(ahead \ {one}) ELSE 0
      n == Cardinality(ahead)
  IN CASE n = 1 -> [target |-> one, beside |-> {}, grants |-> TRUE]
       [] n > 1 /\ Brief -> [target |-> one, beside |-> {two}, grants |-> n = 2 \/ "any deletion grants" \in Broken]
       [] OTHER -> [target |-> two, beside |-> {}, grants |-> "any deletion grants" \in Broken]

\* waiting.go: wait. The watch on our node goes out first, and what is watched already stays.
Wait(m, p) ==
  LET moved == p.target # m.target
      begin == p.beside \ m.beside
      w == [m EXCEPT !.target = p.target, !.beside = p.beside, !.grants = p.grants,
                     !.same = IF moved THEN FALSE ELSE @,
                     !.conf = @ \cap ({m.n, IF moved THEN 0 ELSE m.target} \cup (m.beside \cap p.beside))]
      own == WatchOwn(w)
      first == IF moved THEN Do(m, "watch", p.target) ELSE <<>>
      more == IF begin = {} THEN <<>> ELSE Do(m, "watch", Max(begin))
  IN Turn(own.m, own.do \o first \o more)

\* waiting.go: rank. All numbers of the line, and those of our attempt.
Rank(m, all, ours) ==
  LET zombies == ours \ {m.n}
      ahead == {n \in all \ ours : n < m.n}
      z == IF zombies = {} THEN <<>> ELSE Do(m, "delete", Max(zombies))
      t == CASE m.n \notin all -> Vanish(m)
             [] m.n \in all /\ ahead # {} -> Wait(m, Locate(ahead))
             [] m.n \in all /\ ahead = {} /\ ~m.known -> Turn(Unwatch(m), <<>>) \* the token comes with the watch
             [] OTHER -> First(m)
  IN IF m.n \in all /\ zombies # {}
     THEN Turn([t.m EXCEPT !.rem = @ \cup {Max(zombies)}], t.do \o z) ELSE t

Listed(m, all, ours) ==
  LET l == [m EXCEPT !.listing = FALSE]
  IN CASE m.st = "recovering" -> Recovered(l, ours)
       [] m.st = "waiting" -> Rank(l, all, ours)
       [] OTHER -> Turn(l, <<>>)

\* waiting.go: happened. The deletion of the last contender ahead may be the grant.
Happened(m, n) ==
  LET granted == m.grants /\ (m.owned \/ "no own watch" \in Broken) /\ (~m.same \/ "own session" \in Broken) /\ m.beside = {}
      b == [m EXCEPT !.beside = @ \ {n}, !.conf = @ \ {n}]
  IN CASE ~Standing(m) -> Turn(m, <<>>)
       [] Standing(m) /\ n = m.n -> Vanish(m)
       [] Standing(m) /\ n # m.n /\ n \in m.beside ->
            IF m.grants /\ b.beside = {} /\ "any deletion grants" \notin Broken THEN Turn(b, <<>>) ELSE Look(b)
       [] Standing(m) /\ n # m.n /\ n = m.target ->
            IF granted THEN First(Forget(m)) ELSE Look(Forget(m))
       [] OTHER -> Turn(m, <<>>)

\* waiting.go: watched. same: the node belongs to our own session.
Watched(m, n, same) ==
  LET c == [m EXCEPT !.conf = @ \cup {n}]
      o == [c EXCEPT !.known = TRUE, !.owned = TRUE]
  IN CASE Standing(m) /\ n = m.n ->
            IF m.st = "waiting" /\ ~m.listing /\ m.target = 0 THEN Look(o) ELSE Turn(o, <<>>)
       [] Standing(m) /\ n # m.n /\ n = m.target -> Turn([c EXCEPT !.same = same], <<>>)
       [] OTHER -> Turn(c, <<>>)

\* waiting.go: notWatched. It was gone before it was watched: no event, and no grant.
NotWatched(m, n) ==
  IF "no node is ignored" \in Broken THEN Turn(m, <<>>) ELSE Happened([m EXCEPT !.grants = FALSE], n)

\* joining.go: withdrawn.
Withdrawn(m, n) ==
  LET w == [m EXCEPT !.rem = @ \ {n}]
  IN CASE n # m.n -> Turn(w, <<>>) \* a zombie
       [] n = m.n /\ m.st = "clearing" -> Enter(w)
       [] n = m.n /\ m.st = "leaving" ->
            Turn([w EXCEPT !.st = "ended", !.vis = IF m.vis = "lost" THEN "lost" ELSE "released"], <<>>)
       [] OTHER -> Turn(w, <<>>)

\* joining.go: expire. A holder has lost; a waiter joins anew in the next session.
Expire(m) ==
  CASE m.st = "held" -> [Fresh EXCEPT !.st = "ended", !.att = m.att, !.vis = "lost"]
    [] m.st = "leaving" -> [Fresh EXCEPT !.st = "ended", !.att = m.att, !.vis = IF m.vis = "lost" THEN "lost" ELSE "released"]
    [] m.st = "ended" -> [m EXCEPT !.rem = {}]
    [] OTHER -> [Fresh EXCEPT !.att = m.att]

(* machine.go: depart. The session completes the deletions of a machine that  *)
(* has ended.                                                                *)
Ended(m, vis) == [Fresh EXCEPT !.st = "ended", !.att = m.att, !.vis = vis,
                               !.rem = IF "a lapse leaves the node" \in Broken THEN {} ELSE m.rem]

\* holding.go: lapse. A holder has lost; a waiter keeps its place.
Lapse(m) ==
  CASE m.st = "held" -> IF "a lapse holds" \in Broken THEN m ELSE Ended(Depart(m, "lost").m, "lost")
    [] m.st = "leaving" -> Ended(m, IF m.vis = "lost" THEN "lost" ELSE "released")
    [] m.st = "waiting" -> IF "waiters lapse" \in Broken THEN [Fresh EXCEPT !.att = m.att] ELSE m
    [] OTHER -> m

\* holding.go: suspend; joining.go: notJoined. A create that was cut off is in doubt.
Suspend(m) ==
  LET s == [m EXCEPT !.grants = IF "events after a cut" \in Broken THEN @ ELSE FALSE]
  IN IF m.st = "joining" THEN [s EXCEPT !.st = "recovering", !.listing = TRUE] ELSE s

-----------------------------------------------------------------------------
(* The servers, the sessions and the wire.                                   *)

Init ==
  /\ nodes = {} /\ next = 1 /\ wat = {} /\ late = {}
  /\ live = {<<s, 1>> : s \in Sessions}
  /\ epoch = [s \in Sessions |-> 1]
  /\ conn = [s \in Sessions |-> TRUE] /\ lapsed = [s \in Sessions |-> FALSE]
  /\ crashed = [s \in Sessions |-> FALSE]
  /\ me = [c \in Contenders |-> Fresh]
  /\ out = [c \in Contenders |-> <<>>]
  /\ in = [c \in Contenders |-> <<>>]
  /\ struck = {} /\ last = 0 /\ untrue = FALSE
  /\ left = [f \in Fault |-> CASE f = "cut" -> Cuts [] f = "lapse" -> Lapses [] f = "kill" -> Kills
                              [] f = "crash" -> Crashes [] f = "strike" -> Strikes [] OTHER -> Lates]

Spend(f) == left[f] > 0 /\ left' = [left EXCEPT ![f] = @ - 1]

\* The orders in which the events of several deletions may be delivered.
Orders(S) ==
  IF S = {} THEN {<<>>} ELSE IF Cardinality(S) = 1 THEN {<<Max(S)>>}
  ELSE {q \in [1..Cardinality(S) -> S] : \A i, j \in DOMAIN q : i # j => q[i] # q[j]}
SeqOf(S) == CHOOSE q \in Orders(S) : TRUE

Gone(c, n, standing) ==
  [k |-> "gone", a |-> 0, n |-> n, ns |-> standing, same |-> FALSE,
   ours |-> {x.n : x \in Own(c, me[c].att)}]

(* The deletion of the nodes D. Each contender that watches some receives its *)
(* events in an order that order chooses, and then more.                      *)
Nothing == [c \in Contenders |-> <<>>]
Delete(D, order, more) ==
  LET stay == {x \in nodes : x.n \notin D}
      standing == {x.n : x \in stay}
  IN /\ nodes' = stay
     /\ wat' = {w \in wat : w[2] \notin D}
     /\ in' = [c \in Contenders |->
          in[c] \o [i \in DOMAIN order[c] |-> Gone(c, order[c][i], standing)] \o more[c]]

Watches(c, D) == {n \in D : <<c, n>> \in wat}
Choices(D) ==
  IF \A c \in Contenders : Cardinality(Watches(c, D)) < 2 THEN {[c \in Contenders |-> SeqOf(Watches(c, D))]}
  ELSE {f \in [Contenders -> UNION {Orders(Watches(c, D)) : c \in Contenders}] :
                 \A c \in Contenders : f[c] \in Orders(Watches(c, D))}

Reply(c, m) == in' = [in EXCEPT ![c] = IF me[c].st = "ended" THEN @ ELSE Append(@, m)]

(* The server executes the first request of a contender.                     *)
Serve(c) ==
  LET s == SessionOf[c]
      r == Head(out[c])
      Msg(k, n, all) == [k |-> k, a |-> r.a, n |-> n, ns |-> all, ours |-> {}, same |-> FALSE]
  IN /\ out[c] # <<>> /\ conn[s] /\ <<s, epoch[s]>> \in live
     /\ out' = [out EXCEPT ![c] = Tail(@)]
     /\ UNCHANGED <<epoch, conn, lapsed, crashed, me, ghosts, left, live>>
     /\ CASE r.op = "create" ->
               LET x == [n |-> next, c |-> c, a |-> r.a, s |-> s, e |-> epoch[s]]
               IN /\ nodes' = nodes \cup {x} /\ next' = next + 1
                  /\ Reply(c, Msg("joined", next, Numbers \cup {next}))
                  /\ UNCHANGED <<wat, late>>
          [] r.op = "list" ->
               /\ Reply(c, [Msg("listed", 0, Numbers) EXCEPT !.ours = {x.n : x \in Own(c, r.a)}])
               /\ UNCHANGED <<nodes, next, wat, late>>
          [] r.op = "watch" /\ r.n \in Numbers ->
               /\ Reply(c, [Msg("watched", r.n, Numbers) EXCEPT !.same = Node(r.n).s = s /\ Node(r.n).e = epoch[s]])
               /\ wat' = wat \cup {<<c, r.n>>}
               /\ UNCHANGED <<nodes, next, late>>
          [] r.op = "watch" /\ r.n \notin Numbers ->
               /\ Reply(c, Msg("no node", r.n, Numbers))
               /\ UNCHANGED <<nodes, next, wat, late>>
          [] r.op = "delete" ->
               \* A deletion of all comes behind a sync: no create of the attempt is executed later.
               LET D == IF r.n = 0 THEN {x.n : x \in Own(c, r.a)} ELSE {r.n} \cap Numbers
               IN /\ \E order \in Choices(D) :
                       Delete(D, order, [d \in Contenders |->
                         IF d = c /\ me[c].st # "ended" THEN <<Msg("withdrawn", r.n, Numbers \ D)>> ELSE <<>>])
                  /\ late' = IF r.n = 0 THEN {l \in late : ~(l[1] = c /\ l[2] = r.a)} ELSE late
                  /\ UNCHANGED next

(* A grant rests on a message. It is true if at the moment of that message   *)
(* our node stood, and before it none but zombies of our own.                *)
True(n, m) == n \in m.ns /\ \A o \in m.ns : o >= n \/ o \in m.ours

(* A contender has taken a step. One that has ended hears nothing any more.  *)
Becomes(c, t, mail) ==
  LET over == t.m.st = "ended"
      up == conn[SessionOf[c]] \* else it is requested when the session connects again
  IN /\ me' = [me EXCEPT ![c] = IF over THEN [Fresh EXCEPT !.st = "ended", !.vis = t.m.vis] ELSE t.m]
     /\ out' = [out EXCEPT ![c] = IF up THEN @ \o t.do ELSE @]
     /\ in' = [in EXCEPT ![c] = IF over THEN <<>> ELSE mail]
     /\ wat' = IF over THEN {w \in wat : w[1] # c} ELSE wat

(* A contender takes the next message. Answers for another attempt are late. *)
Take(c) ==
  LET s == SessionOf[c]
      m == Head(in[c])
      x == me[c]
      t == CASE m.k \in {"joined", "listed", "withdrawn"} /\ m.a # x.att -> Turn(x, <<>>)
             [] m.k = "joined" /\ m.a = x.att ->
                  IF x.st = "joining" THEN Joined(x, m.n, Cardinality(m.ns)) ELSE Turn(x, <<>>)
             [] m.k = "listed" /\ m.a = x.att ->
                  IF x.listing THEN Listed(x, m.ns, m.ours) ELSE Turn(x, <<>>)
             [] m.k = "withdrawn" /\ m.a = x.att -> Withdrawn(x, m.n)
             [] m.k = "watched" -> IF m.n \in Subs(x) THEN Watched(x, m.n, m.same) ELSE Turn(x, <<>>)
             \* vocabulary.go: Happened comes after Watched. A watch of an earlier attempt may report first.
             [] m.k = "gone" -> IF m.n \in (IF "unconfirmed events" \in Broken THEN Subs(x) ELSE Subs(x) \cap x.conf)
                                THEN Happened(x, m.n) ELSE Turn(x, <<>>)
             [] OTHER -> IF m.n \in Subs(x) THEN NotWatched(x, m.n) ELSE Turn(x, <<>>)
      grant == t.m.st = "held" /\ x.st # "held"
  IN /\ in[c] # <<>>
     /\ Becomes(c, t, Tail(in[c]))
     /\ last' = IF grant THEN t.m.n ELSE last
     /\ untrue' = (untrue \/ (grant /\ ~True(t.m.n, m)))
     /\ UNCHANGED <<nodes, next, live, late, epoch, conn, lapsed, crashed, struck, left>>

(* A user joins, and leaves whenever it likes. *)
Begin(c) ==
  /\ me[c].st = "outside" /\ conn[SessionOf[c]] /\ ~crashed[SessionOf[c]]
  /\ me' = [me EXCEPT ![c] = Enter(@).m]
  /\ out' = [out EXCEPT ![c] = @ \o Enter(me[c]).do]
  /\ UNCHANGED <<server, epoch, conn, lapsed, crashed, in, ghosts, left>>

Leave(c) ==
  /\ me[c].st \notin {"outside", "leaving", "ended"} /\ ~crashed[SessionOf[c]]
  /\ me[c].st = "held" \/ c \in Leavers
  /\ IF lapsed[SessionOf[c]]
     THEN /\ me' = [me EXCEPT ![c] = Ended(Depart(@, "released").m, "released")]
          /\ UNCHANGED <<in, out, wat>> \* there are none without a connection
     ELSE Becomes(c, Depart(me[c], "released"), in[c])
  /\ UNCHANGED <<nodes, next, live, late, epoch, conn, lapsed, crashed, ghosts, left>>

-----------------------------------------------------------------------------
(* Faults.                                                                   *)

Creates(c) == {i \in DOMAIN out[c] : out[c][i].op = "create"}

(* A connection breaks, and its client notices it. Requests on their way are *)
(* lost, with all replies and events. A creation may be executed later.      *)
Cut(s) ==
  /\ conn[s] /\ ~crashed[s] /\ Spend("cut")
  /\ conn' = [conn EXCEPT ![s] = FALSE]
  /\ wat' = {w \in wat : w[1] \notin Of(s)}
  /\ \E L \in SUBSET {<<c, me[c].att, epoch[s]>> : c \in {d \in Of(s) : Creates(d) # {}}} :
       /\ Cardinality(L) + Cardinality(late) <= left["late"]
       /\ late' = late \cup L
  /\ me' = [c \in Contenders |-> IF c \in Of(s) THEN Suspend(me[c]) ELSE me[c]]
  /\ out' = [c \in Contenders |-> IF c \in Of(s) THEN <<>> ELSE out[c]]
  /\ in' = [c \in Contenders |-> IF c \in Of(s) THEN <<>> ELSE in[c]]
  /\ UNCHANGED <<nodes, next, live, epoch, lapsed, crashed, ghosts>>

LateCreate ==
  \E l \in late :
    LET s == SessionOf[l[1]] IN
    /\ <<s, l[3]>> \in live
    /\ nodes' = nodes \cup {[n |-> next, c |-> l[1], a |-> l[2], s |-> s, e |-> l[3]]}
    /\ next' = next + 1 /\ late' = late \ {l}
    /\ left' = [left EXCEPT !["late"] = @ - 1]
    /\ UNCHANGED <<live, wat, epoch, conn, lapsed, crashed, me, out, in, ghosts>>

(* The session connects again. Its watches come first, and report what they  *)
(* have missed; then what was under way is requested anew, and a waiter lists *)
(* (holding.go: resume). Whether the servers have expired it shows now, too.  *)
Reconnect(s) ==
  /\ ~conn[s] /\ ~crashed[s] /\ <<s, epoch[s]>> \in live
  /\ conn' = [conn EXCEPT ![s] = TRUE] /\ lapsed' = [lapsed EXCEPT ![s] = FALSE]
  /\ wat' = wat \cup UNION {{<<c, n>> : n \in (me[c].conf \cap Subs(me[c])) \cap Numbers} : c \in Of(s)}
  /\ \E order \in {f \in [Of(s) -> UNION {Orders(S) : S \in {(me[c].conf \cap Subs(me[c])) \ Numbers : c \in Of(s)}}] :
                     \A c \in Of(s) : f[c] \in Orders((me[c].conf \cap Subs(me[c])) \ Numbers)} :
       in' = [c \in Contenders |-> IF c \notin Of(s) THEN in[c] ELSE
               [i \in DOMAIN order[c] |-> Gone(c, order[c][i], Numbers)]]
  /\ me' = [c \in Contenders |-> IF c \in Of(s) /\ me[c].st = "waiting" THEN [me[c] EXCEPT !.listing = TRUE] ELSE me[c]]
  /\ out' = [c \in Contenders |-> IF c \notin Of(s) THEN out[c] ELSE
       LET m == me'[c]
           own == IF m.n \in Subs(m) \ m.conf THEN Do(m, "watch", m.n) ELSE <<>>
           others == SeqOf(Subs(m) \ (m.conf \cup {m.n}))
           rem == SeqOf(m.rem)
       IN own \o [i \in DOMAIN others |-> Do(m, "watch", others[i])[1]]
              \o [i \in DOMAIN rem |-> Do(m, "delete", rem[i])[1]]
              \o (IF m.listing THEN Do(m, "list", 0) ELSE <<>>)]
  /\ UNCHANGED <<nodes, next, live, late, epoch, crashed, ghosts, left>>

(* The lease of a session ends for its client. It gives up the connection. No  *)
(* answer that is not taken counts any more.                                 *)
LeaseEnds(s) ==
  /\ ~crashed[s] /\ ~lapsed[s] /\ Spend("lapse")
  /\ lapsed' = [lapsed EXCEPT ![s] = TRUE] /\ conn' = [conn EXCEPT ![s] = FALSE]
  /\ wat' = {w \in wat : w[1] \notin Of(s)}
  /\ me' = [c \in Contenders |-> IF c \in Of(s) THEN Lapse(Suspend(me[c])) ELSE me[c]]
  /\ out' = [c \in Contenders |-> IF c \in Of(s) THEN <<>> ELSE out[c]]
  /\ in' = [c \in Contenders |-> IF c \in Of(s) /\ ("answers of before count" \notin Broken \/ me'[c].st = "ended") THEN <<>> ELSE in[c]]
  /\ UNCHANGED <<nodes, next, live, late, epoch, crashed, ghosts>>

(* The session is lost, and the client opens the next one. Its contenders     *)
(* that hold have lost; those that wait are outside.                         *)
Over(s) ==
  /\ me' = [c \in Contenders |-> IF c \in Of(s) THEN Expire(me[c]) ELSE me[c]]
  /\ out' = [c \in Contenders |-> IF c \in Of(s) THEN <<>> ELSE out[c]]
  /\ in' = [c \in Contenders |-> IF c \in Of(s) THEN <<>> ELSE in[c]]
  /\ wat' = {w \in wat : w[1] \notin Of(s)}
  /\ epoch' = [epoch EXCEPT ![s] = @ + 1]
  /\ live' = live \cup {<<s, epoch[s] + 1>>}
  /\ conn' = [conn EXCEPT ![s] = TRUE] /\ lapsed' = [lapsed EXCEPT ![s] = FALSE]
  /\ UNCHANGED <<nodes, next, late, crashed, ghosts>>

\* Because the servers have expired it, which it hears when they refuse it. Events before may be lost.
HearsExpiry(s) == ~crashed[s] /\ <<s, epoch[s]>> \notin live /\ Over(s) /\ UNCHANGED left

(* The servers expire a session, and delete its nodes. If the lease holds, it  *)
(* has ended for its client before, or the client has crashed.               *)
ServerExpires(s, e) ==
  LET D == {x.n : x \in {y \in nodes : y.s = s /\ y.e = e}}
  IN /\ <<s, e>> \in live
     /\ IF epoch[s] # e \/ crashed[s] \/ lapsed[s] THEN UNCHANGED left
        ELSE (~LeaseHolds \/ "expires early" \in Broken) /\ Spend("kill")
     /\ live' = live \ {<<s, e>>}
     /\ late' = {l \in late : ~(SessionOf[l[1]] = s /\ l[3] = e)}
     /\ \E order \in Choices(D) : Delete(D, order, Nothing)
     /\ UNCHANGED <<next, epoch, conn, lapsed, crashed, me, out, ghosts>>

Crash(s) ==
  /\ ~crashed[s] /\ Spend("crash")
  /\ crashed' = [crashed EXCEPT ![s] = TRUE]
  /\ conn' = [conn EXCEPT ![s] = FALSE]
  /\ me' = [c \in Contenders |-> IF c \in Of(s) THEN [Fresh EXCEPT !.st = "ended", !.vis = "crashed"] ELSE me[c]]
  /\ out' = [c \in Contenders |-> IF c \in Of(s) THEN <<>> ELSE out[c]]
  /\ in' = [c \in Contenders |-> IF c \in Of(s) THEN <<>> ELSE in[c]]
  /\ wat' = {w \in wat : w[1] \notin Of(s)}
  /\ UNCHANGED <<nodes, next, live, late, epoch, lapsed, ghosts>>

\* An operator deletes a node.
Strike(n) ==
  /\ n \in Numbers /\ Spend("strike")
  /\ struck' = struck \cup {n}
  /\ \E order \in Choices({n}) : Delete({n}, order, Nothing)
  /\ UNCHANGED <<next, live, late, epoch, conn, lapsed, crashed, me, out, last, untrue>>

Next ==
  \/ \E c \in Contenders : Begin(c) \/ Serve(c) \/ Take(c) \/ Leave(c)
  \/ \E s \in Sessions : Cut(s) \/ Reconnect(s) \/ LeaseEnds(s) \/ HearsExpiry(s) \/ Crash(s)
  \/ \E l \in live : ServerExpires(l[1], l[2])
  \/ \E n \in Numbers : Strike(n)
  \/ LateCreate

Spec == Init /\ [][Next]_vars

(* Whatever can happen by itself happens, and holders leave. Waiters need not. *)
Fairness ==
  /\ \A c \in Contenders : WF_vars(Begin(c)) /\ WF_vars(Serve(c)) /\ WF_vars(Take(c))
  /\ \A c \in Contenders : WF_vars(me[c].st = "held" /\ Leave(c))
  /\ \A s \in Sessions : WF_vars(Reconnect(s)) /\ WF_vars(HearsExpiry(s))
  /\ WF_vars(\E l \in live : (epoch[l[1]] # l[2] \/ crashed[l[1]]) /\ ServerExpires(l[1], l[2]))
FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
(* What is promised.                                                         *)

Holds(c) == me[c].st = "held"

(* A contender that holds, and whose node stands, is the first in line, but   *)
(* for zombies of its own. So of                                             *)
(* two contenders that hold, one has no node any more: always, without any   *)
(* assumption about clocks. A guarded write of the other is refused.         *)
HolderIsFirst ==
  \A c \in Contenders : Holds(c) /\ me[c].n \in Numbers => \A x \in nodes : x.n >= me[c].n \/ x.c = c

(* lock/doc.go: no two hold at once, and so a contender that has lost has been *)
(* told before another is granted. It needs the lease, and no operator.      *)
Exclusion ==
  LeaseHolds => \A c, d \in Contenders :
    c # d /\ Holds(c) /\ Holds(d) => me[c].n \in struck \/ me[d].n \in struck

(* The token of a grant is the czxid of a node that stood first.             *)
GrantsAreTrue == ~untrue

(* Tokens grow with every grant, in the order in which users receive them.   *)
TokensGrow == [][last' # last => last' > last \/ ~LeaseHolds \/ struck # {}]_last

(* A waiter keeps its place when the lease ends.                             *)
PlacesStay == [][\A c \in Contenders : me[c].st = "waiting" /\ ~lapsed[SessionOf[c]] /\ lapsed'[SessionOf[c]]
                                         => me'[c].st = "waiting" /\ me'[c].n = me[c].n]_lapsed

(* Nobody waits in vain. When all answers have come, a waiter has another    *)
(* contender ahead, and its watches stand on its own node and on one ahead.  *)
Quiet(c) == LET s == SessionOf[c] IN conn[s] /\ <<s, epoch[s]>> \in live /\ in[c] = <<>> /\ out[c] = <<>>
NobodyIsSkipped ==
  \A c \in Contenders : Quiet(c) =>
    /\ me[c].st \notin {"joining", "recovering", "clearing", "leaving"}
    /\ me[c].st = "waiting" =>
         /\ <<c, me[c].n>> \in wat
         /\ \E n \in Numbers : n < me[c].n /\ <<c, n>> \in wat

(* No node outlives the handle on a live session.                            *)
NoGhosts ==
  \A c \in Contenders : LET s == SessionOf[c] IN
    me[c].st = "ended" /\ Quiet(c) /\ ~crashed[s] =>
      \A x \in nodes : x.c = c => x.e # epoch[s] \/ \E l \in late : l[1] = c

(* While the line moves, every contender comes to its turn.                  *)
NobodyWaitsForEver ==
  \A c \in Contenders : (me[c].att > 0 /\ me[c].vis = "in line") ~> (me[c].vis # "in line")
=============================================================================
