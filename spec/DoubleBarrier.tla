---------------------------- MODULE DoubleBarrier ----------------------------
(* The double barrier: primitives/barrier/machine.go. Parties begin and end   *)
(* their work together, in rounds. Every operator names the Go function whose *)
(* rule it states. README.md says what is abstracted away.                   *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Parties,   \* the handles
  Size,      \* how many parties a round has
  Enters,    \* how often each party enters
  Losses, Expiries, Crashes, Cancels, \* how often each fault happens
  Broken     \* the rules that a mutant breaks; {} is the protocol

VARIABLES
  book,    \* the record of the newest round: its number, which is also the version, and its members
  up,      \* the rounds whose directories stand
  nodes,   \* the nodes of parties: [p, k, r, e] = party, entry, round, epoch of its session
  epoch,   \* of the session of each party
  crashed,
  me,      \* the machine of each party
  asked,   \* its request under way
  reply,   \* the answer to it, on its way back
  left,    \* the faults that may still happen
  began,   \* for each round that has begun: the nodes that stood then, of those that it lists
  early,   \* a party has left a round while another node stood in it
  out      \* the entries whose Enter was withdrawn

vars == <<book, up, nodes, epoch, crashed, me, asked, reply, left, began, early, out>>
server == <<book, up, nodes>>
ghosts == <<began, early, out>>

Alike == Permutations(Parties) \* for SYMMETRY
Faults == {"loss", "expiry", "crash", "cancel"}
None == [op |-> "none"]
In(r) == {x \in nodes : x.r = r}
Name(x) == <<x.p, x.k>>

\* machine.go: bearers.
Bearers == IF "one bearer" \in Broken THEN 1 ELSE 2

-----------------------------------------------------------------------------
(* The machine.                                                              *)

Fresh == [ stage |-> "resting", k |-> 0, enters |-> Enters,
           seen |-> [round |-> 0, members |-> {}], stale |-> TRUE, \* the sight; a newer one will come
           node |-> 0, sure |-> FALSE, doubted |-> FALSE,
           duty |-> FALSE, spare |-> FALSE, retire |-> FALSE,
           round |-> 0, awaited |-> 0, look |-> FALSE ]

\* rename: our node is gone or given up, and the next has another name.
Rename(m) == [m EXCEPT !.k = @ + 1, !.node = 0, !.sure = FALSE, !.doubted = FALSE, !.duty = FALSE, !.spare = FALSE,
                       !.awaited = IF m.stage = "gathering" THEN 0 ELSE @, !.look = IF m.stage = "gathering" THEN FALSE ELSE @]
AwaitEnd(m, r, look) == [m EXCEPT !.awaited = r, !.look = look]
Rest(m) == [m EXCEPT !.stage = "resting", !.round = 0, !.awaited = 0, !.look = FALSE, !.retire = FALSE, !.duty = FALSE]
Outdated(m) == [m EXCEPT !.stale = TRUE]

\* removed, left: the awaited round is over. What a member leaves is in early.
Removed(m) == IF m.stage = "leaving" THEN Rest(m)
              ELSE [m EXCEPT !.awaited = 0, !.look = FALSE, !.duty = @ \/ m.spare]

Req(op, r, m) == [op |-> op, r |-> r, k |-> m.k, v |-> m.seen.round, ms |-> {}]

\* advanceGathering and advanceLeaving: the next request, in the order of their cases; None if there is none.
Listed(p, m) == m.seen.round = m.node /\ <<p, m.k>> \in m.seen.members
Wants(p, m) ==
  CASE m.stage = "gathering" /\ (m.stale \/ (m.retire /\ m.node = 0)) -> None
    [] m.stage = "gathering" /\ m.node # 0 /\ ~m.stale /\ Listed(p, m) -> None
    [] m.stage = "gathering" /\ m.node # 0 /\ ~m.stale /\ ~Listed(p, m) /\ m.seen.round >= m.node -> Req("exiting", m.node, m)
    [] m.stage = "gathering" /\ m.node # 0 /\ ~m.stale /\ m.seen.round < m.node /\ m.retire -> Req("retiring", m.node, m)
    [] m.stage = "gathering" /\ ~m.stale /\ ~m.retire /\ m.seen.round < m.node /\ m.sure ->
         CASE m.awaited # 0 /\ m.look -> Req("looking", m.awaited, m)
           [] m.duty /\ m.awaited = 0 -> Req("listing", m.node, m)
           [] OTHER -> None
    [] m.stage = "gathering" /\ ~m.stale /\ ~m.retire /\ (m.node = 0 \/ m.seen.round < m.node) /\ ~m.sure ->
         Req("entering", m.seen.round + 1, m)
    [] m.stage = "leaving" /\ m.node # 0 -> Req("exiting", m.round, m)
    [] m.stage = "leaving" /\ m.node = 0 /\ m.look -> Req("checking", m.awaited, m)
    [] OTHER -> None

\* present: of several nodes of one handle only the newest counts.
Present(names) ==
  IF "one handle twice" \in Broken THEN names ELSE {x \in names : \A y \in names : y[1] = x[1] => y[2] <= x[2]}

-----------------------------------------------------------------------------
Init ==
  /\ book = [round |-> 0, members |-> {}] /\ up = {1} /\ nodes = {}
  /\ epoch = [p \in Parties |-> 1] /\ crashed = {}
  /\ me = [p \in Parties |-> Fresh]
  /\ asked = [p \in Parties |-> None] /\ reply = [p \in Parties |-> None]
  /\ left = [f \in Faults |-> CASE f = "loss" -> Losses [] f = "expiry" -> Expiries [] f = "crash" -> Crashes [] OTHER -> Cancels]
  /\ began = <<>> /\ early = FALSE /\ out = {}

Spend(f) == left[f] > 0 /\ left' = [left EXCEPT ![f] = @ - 1]
Become(p, m) == me' = [me EXCEPT ![p] = m]
Idle(p) == asked[p] = None /\ reply[p] = None /\ p \notin crashed

(* Users enter when they rest, and leave when they are in.                   *)
Enter(p) ==
  /\ me[p].stage = "resting" /\ me[p].enters > 0 /\ p \notin crashed
  /\ Become(p, [Rename(me[p]) EXCEPT !.stage = "gathering", !.enters = @ - 1])
  /\ UNCHANGED <<server, epoch, crashed, asked, reply, left, ghosts>>
Leave(p) ==
  /\ me[p].stage = "inside" /\ p \notin crashed
  /\ Become(p, [me[p] EXCEPT !.stage = "leaving"])
  /\ UNCHANGED <<server, epoch, crashed, asked, reply, left, ghosts>>
Cancel(p) ==
  /\ me[p].stage = "gathering" /\ ~me[p].retire /\ p \notin crashed /\ Spend("cancel")
  /\ Become(p, [me[p] EXCEPT !.retire = TRUE])
  /\ UNCHANGED <<server, epoch, crashed, asked, reply, ghosts>>

\* saw: the watch delivers the record.
See(p) ==
  /\ p \notin crashed /\ me[p].stage = "gathering" /\ (me[p].stale \/ me[p].seen # book)
  /\ Become(p, [me[p] EXCEPT !.seen = book, !.stale = FALSE])
  /\ UNCHANGED <<server, epoch, crashed, asked, reply, left, ghosts>>

\* in: the record lists us. withdraw: Enter ends without a round, and our node is gone.
ComesIn(p) ==
  LET m == me[p] IN
  /\ Idle(p) /\ m.stage = "gathering" /\ m.node # 0 /\ ~m.stale /\ Listed(p, m)
  /\ Become(p, [m EXCEPT !.stage = "inside", !.round = m.node, !.sure = TRUE, !.awaited = 0, !.look = FALSE,
                         !.retire = FALSE, !.duty = FALSE])
  /\ UNCHANGED <<server, epoch, crashed, asked, reply, left, ghosts>>
Withdraw(p) ==
  /\ Idle(p) /\ me[p].stage = "gathering" /\ me[p].retire /\ me[p].node = 0
  /\ Become(p, Rest(me[p]))
  /\ UNCHANGED <<server, epoch, crashed, asked, reply, left, ghosts>>

\* advance: at most one request is under way.
Ask(p) ==
  LET w == Wants(p, me[p]) IN
  /\ Idle(p) /\ w # None
  /\ asked' = [asked EXCEPT ![p] = w]
  /\ Become(p, [me[p] EXCEPT !.node = IF w.op = "entering" THEN w.r ELSE @,
                             !.look = IF w.op \in {"checking", "looking"} THEN FALSE ELSE @])
  /\ UNCHANGED <<server, epoch, crashed, reply, left, ghosts>>

-----------------------------------------------------------------------------
(* The server executes a request: double.go, ops. Each is one transaction.   *)

Answer(op, n) == [op |-> op, n |-> n, names |-> {}]
Stays(q) == book' = book /\ up' = up /\ nodes' = nodes /\ began' = began

Execute(p, q, Gives(_)) ==
  LET own == {x \in nodes : x.p = p /\ x.k = q.k /\ x.r = q.r}
      all == {Name(x) : x \in In(q.r)}
  IN CASE q.op = "entering" /\ book.round # q.v -> Stays(q) /\ Gives(Answer("moved", 0))
       [] q.op = "entering" /\ book.round = q.v /\ own # {} -> Stays(q) /\ Gives(Answer("exists", 0))
       [] q.op = "entering" /\ book.round = q.v /\ own = {} ->
            /\ nodes' = nodes \cup {[p |-> p, k |-> q.k, r |-> q.r, e |-> epoch[p]]}
            /\ Gives(Answer("ok", Cardinality(In(q.r)) + 1))
            /\ UNCHANGED <<book, up, began>>
       [] q.op = "listing" -> Stays(q) /\ Gives(IF q.r \in up THEN [Answer("ok", 0) EXCEPT !.names = all] ELSE Answer("no node", 0))
       [] q.op = "starting" /\ book.round # q.v -> Stays(q) /\ Gives(Answer("moved", 0))
       [] q.op = "starting" /\ book.round = q.v /\ q.r - 1 \in up /\ "rounds overlap" \notin Broken ->
            Stays(q) /\ Gives(Answer("earlier", 0))
       [] q.op = "starting" /\ book.round = q.v /\ (q.r - 1 \notin up \/ "rounds overlap" \in Broken)
          /\ ~(q.ms \subseteq all) /\ "absent members" \notin Broken -> Stays(q) /\ Gives(Answer("party", 0))
       [] q.op = "starting" /\ book.round = q.v -> \* and nothing of the above
            /\ book' = [round |-> q.r, members |-> q.ms]
            /\ up' = up \cup {q.r + 1}
            /\ began' = began @@ (q.r :> (q.ms \cap all))
            /\ Gives(Answer("ok", 0)) /\ UNCHANGED nodes
       [] q.op = "retiring" /\ book.round # q.v /\ "unchecked retirement" \notin Broken -> Stays(q) /\ Gives(Answer("moved", 0))
       [] q.op \in {"retiring", "exiting"} /\ own = {} -> Stays(q) /\ Gives(Answer("no node", 0))
       [] q.op \in {"retiring", "exiting"} /\ own # {} ->
            /\ nodes' = nodes \ own
            /\ Gives(Answer("ok", Cardinality(In(q.r) \ own)))
            /\ UNCHANGED <<book, up, began>>
       [] q.op = "shutting" /\ q.r \notin up -> Stays(q) /\ Gives(Answer("no node", 0))
       [] q.op = "shutting" /\ q.r \in up /\ In(q.r) # {} -> Stays(q) /\ Gives(Answer("not empty", 0))
       [] q.op = "shutting" /\ q.r \in up /\ In(q.r) = {} ->
            up' = up \ {q.r} /\ Gives(Answer("ok", 0)) /\ UNCHANGED <<book, nodes, began>>
       [] q.op = "checking" -> Stays(q) /\ Gives([Answer("ok", 0) EXCEPT !.names = book.members])
       [] q.op = "looking" -> Stays(q) /\ Gives(Answer("ok", Cardinality(In(q.r))))

Serve(p) ==
  /\ asked[p] # None /\ reply[p] = None /\ p \notin crashed
  /\ Execute(p, asked[p], LAMBDA a : reply' = [reply EXCEPT ![p] = a])
  /\ UNCHANGED <<epoch, crashed, me, asked, left, early, out>>

\* The reply is lost, or the request: the outcome is unknown.
Lose(p) ==
  /\ asked[p] # None /\ reply[p] = None /\ p \notin crashed /\ Spend("loss")
  /\ reply' = [reply EXCEPT ![p] = Answer("doubt", 0)]
  /\ \/ Execute(p, asked[p], LAMBDA a : TRUE)
     \/ UNCHANGED <<server, began>>
  /\ UNCHANGED <<epoch, crashed, me, asked, early, out>>

-----------------------------------------------------------------------------
(* Answers: answered and the functions that it calls.                        *)

Entered(m, a) ==
  LET e == IF ~m.doubted /\ a.op = "moved" THEN [m EXCEPT !.node = 0] ELSE m
  IN CASE a.op = "ok" -> [m EXCEPT !.sure = TRUE, !.doubted = FALSE,
                                   !.duty = a.n >= Size /\ a.n < Size + Bearers, !.spare = a.n >= Size + Bearers]
       [] a.op = "exists" -> [m EXCEPT !.sure = TRUE, !.doubted = FALSE, !.duty = TRUE]
       [] a.op = "doubt" -> [m EXCEPT !.doubted = TRUE]
       [] OTHER -> Outdated(e)

Started(m, a) ==
  CASE a.op \in {"ok", "moved"} -> Outdated(m)
    [] a.op = "earlier" /\ m.spare -> [m EXCEPT !.duty = FALSE, !.awaited = m.node - 1, !.look = TRUE]
    [] a.op = "earlier" /\ ~m.spare -> AwaitEnd(m, m.node - 1, TRUE)
    [] OTHER -> m

\* exitedWith, when the party is not the last; else it shuts the round.
Exited(m, q, a) ==
  CASE a.op = "doubt" -> m
    [] a.op # "doubt" /\ m.stage = "leaving" ->
         IF "leaves alone" \in Broken THEN Rest(Rename(m)) ELSE AwaitEnd(Rename(m), q.r, a.op = "no node")
    [] OTHER -> Rename(m)

Shut(m, q, a) ==
  CASE a.op \in {"ok", "no node"} /\ (m.stage = "leaving" \/ m.awaited = q.r) -> Removed(m)
    [] a.op = "not empty" /\ m.stage = "leaving" /\ m.awaited = 0 -> AwaitEnd(m, q.r, FALSE)
    [] OTHER -> m

Take(p) ==
  LET m == me[p]
      q == asked[p]
      a == reply[p]
      Done(n) == Become(p, n) /\ asked' = [asked EXCEPT ![p] = None]
      Goes(op, r, n, ms) == Become(p, n) /\ asked' = [asked EXCEPT ![p] = [Req(op, r, n) EXCEPT !.ms = ms]]
      mine == m.stage = "leaving" \/ m.awaited = q.r
      names == Present(a.names)
  IN /\ a # None /\ p \notin crashed
     /\ reply' = [reply EXCEPT ![p] = None]
     /\ out' = IF q.op = "retiring" /\ a.op = "ok" THEN out \cup {<<p, q.k>>} ELSE out
     /\ UNCHANGED <<server, epoch, crashed, left, began>>
     /\ CASE q.op = "entering" -> Done(Entered(m, a))
          [] q.op = "listing" /\ a.op = "no node" -> Done([m EXCEPT !.sure = FALSE, !.doubted = TRUE, !.duty = FALSE])
          [] q.op = "listing" /\ a.op = "doubt" -> Done(m)
          [] q.op = "listing" /\ a.op = "ok" /\ Cardinality(names) < Size -> Done([m EXCEPT !.duty = FALSE])
          [] q.op = "listing" /\ a.op = "ok" /\ Cardinality(names) >= Size ->
               IF m.retire \/ m.stale \/ m.seen.round + 1 # m.node THEN Done(m)
               ELSE \E ms \in {s \in SUBSET names : Cardinality(s) = Size} : Goes("starting", m.node, m, ms)
          [] q.op = "starting" -> Done(Started(m, a))
          [] q.op = "retiring" /\ a.op \in {"ok", "no node"} -> Done(Rename(m))
          [] q.op = "retiring" /\ a.op = "moved" -> Done(Outdated(m))
          [] q.op = "retiring" /\ a.op = "doubt" -> Done(m)
          [] q.op = "exiting" /\ a.op = "ok" /\ a.n = 0 -> Goes("shutting", q.r, Rename(m), {})
          [] q.op = "exiting" /\ ~(a.op = "ok" /\ a.n = 0) -> Done(Exited(m, q, a))
          [] q.op = "shutting" /\ a.op = "doubt" /\ mine -> Goes("shutting", q.r, m, {})
          [] q.op = "shutting" /\ ~(a.op = "doubt" /\ mine) -> Done(Shut(m, q, a))
          [] q.op = "checking" /\ q.r # m.awaited -> Done(m) \* it is over already
          [] q.op = "checking" /\ q.r = m.awaited /\ a.op = "doubt" -> Done([m EXCEPT !.look = TRUE])
          [] q.op = "checking" /\ q.r = m.awaited /\ a.op = "ok" ->
               IF \E k \in 0..m.k : <<p, k>> \in a.names THEN Goes("looking", q.r, m, {}) ELSE Done(Removed(m))
          [] q.op = "looking" /\ q.r # m.awaited -> Done(m)
          [] q.op = "looking" /\ q.r = m.awaited /\ a.op = "doubt" -> Done([m EXCEPT !.look = TRUE])
          [] q.op = "looking" /\ q.r = m.awaited /\ a.op = "ok" ->
               CASE a.n = 0 -> Goes("shutting", q.r, m, {})
                 [] a.n > 0 /\ m.spare -> Done([m EXCEPT !.awaited = 0])
                 [] OTHER -> Done(m)
     /\ early' = (early \/ (m.stage = "leaving" /\ me'[p].stage = "resting" /\ In(m.round) # {}))

\* over: the watch on the directory of the awaited round reports that it is gone.
Over(p) ==
  LET m == me[p] IN
  /\ p \notin crashed /\ m.awaited # 0 /\ m.awaited \notin up
  /\ Become(p, Removed(m))
  /\ early' = (early \/ (m.stage = "leaving" /\ In(m.round) # {}))
  /\ UNCHANGED <<server, epoch, crashed, asked, reply, left, began, out>>

\* tick: a session timeout has passed. A party looks, and an entrant behind the first two takes the duty.
Tick(p) ==
  LET m == me[p] IN
  /\ p \notin crashed
  /\ \/ m.awaited # 0 /\ ~m.look /\ In(m.awaited) = {}
     \/ (m.spare /\ m.sure /\ ~m.duty /\ m.awaited = 0 /\ "one bearer" \notin Broken)
  /\ Become(p, [m EXCEPT !.look = m.awaited # 0, !.duty = @ \/ (m.spare /\ m.sure)])
  /\ UNCHANGED <<server, epoch, crashed, asked, reply, left, ghosts>>

-----------------------------------------------------------------------------
(* Faults. A party counts its session as lost before the servers expire it: Lease.tla. *)

Expire(p) ==
  LET m == me[p]
      n == [Rename(m) EXCEPT !.stale = TRUE, !.seen = [round |-> 0, members |-> {}], !.awaited = 0, !.look = FALSE]
  IN /\ p \notin crashed /\ m.stage # "resting" /\ Spend("expiry")
     /\ epoch' = [epoch EXCEPT ![p] = @ + 1]
     /\ asked' = [asked EXCEPT ![p] = None] /\ reply' = [reply EXCEPT ![p] = None]
     /\ Become(p, CASE m.stage = "inside" -> Rest(n)
                    [] m.stage = "leaving" -> AwaitEnd(n, m.round, TRUE)
                    [] OTHER -> n)
     /\ UNCHANGED <<server, crashed, ghosts>>
Crash(p) ==
  /\ p \notin crashed /\ Spend("crash")
  /\ crashed' = crashed \cup {p}
  /\ asked' = [asked EXCEPT ![p] = None] /\ reply' = [reply EXCEPT ![p] = None]
  /\ UNCHANGED <<server, epoch, me, ghosts>>
Lapse(p) ==
  LET gone == {x \in nodes : x.p = p /\ (x.e # epoch[p] \/ p \in crashed)}
  IN /\ gone # {} /\ nodes' = nodes \ gone
     /\ UNCHANGED <<book, up, epoch, crashed, me, asked, reply, left, ghosts>>

Moves(p) == Enter(p) \/ Leave(p) \/ See(p) \/ ComesIn(p) \/ Withdraw(p) \/ Ask(p) \/ Serve(p) \/ Take(p) \/ Over(p) \/ Tick(p) \/ Lapse(p)
Next == \E p \in Parties : Moves(p) \/ Cancel(p) \/ Lose(p) \/ Expire(p) \/ Crash(p)

Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ \A p \in Parties :
  /\ WF_vars(Enter(p)) /\ WF_vars(Leave(p)) /\ WF_vars(See(p)) /\ WF_vars(ComesIn(p)) /\ WF_vars(Withdraw(p))
  /\ WF_vars(Ask(p)) /\ WF_vars(Serve(p)) /\ WF_vars(Take(p)) /\ WF_vars(Over(p)) /\ WF_vars(Tick(p)) /\ WF_vars(Lapse(p))

-----------------------------------------------------------------------------
(* What is promised: barrier/doc.go.                                         *)

(* Nobody passes before all have come: when a round begins, a node of each of *)
(* Size parties stands, and a party is in only if it is one of these.         *)
AllAreIn ==
  /\ \A r \in DOMAIN began : Cardinality({x[1] : x \in began[r]}) = Size
  /\ \A p \in Parties : me[p].stage = "inside" => <<p, me[p].k>> \in began[me[p].round]

(* Rounds do not overlap: while the node of a member stands, its round is the newest. *)
RoundsDoNotOverlap == \A x \in nodes : x.r \in DOMAIN began /\ Name(x) \in began[x.r] => book.round = x.r

(* Leave returns when no member has a node.                                  *)
AllAreOut == ~early

(* A party whose Enter was withdrawn is in no round.                         *)
WithdrawnIsOut == \A r \in DOMAIN began : out \cap began[r] = {}

(* While enough parties come and leave, none gathers or leaves for ever.     *)
NobodyGathersForEver == \A p \in Parties : (me[p].stage = "gathering" /\ p \notin crashed) ~> (me[p].stage # "gathering" \/ p \in crashed)
NobodyLeavesForEver == \A p \in Parties : (me[p].stage = "leaving" /\ p \notin crashed) ~> (me[p].stage # "leaving" \/ p \in crashed)
=============================================================================
