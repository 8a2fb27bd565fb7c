---------------------------- MODULE BarrierTrace ----------------------------
(* Is a run of real double barriers a behaviour of DoubleBarrier? As in        *)
(* LineTrace.tla: an observer has seen the znodes of the parties, the         *)
(* directories that stand, and what the users do.                            *)
EXTENDS DoubleBarrier, Sequences, BarrierRun

VARIABLE seen \* so many observations are explained

Range(q) == {q[i] : i \in DOMAIN q}
Places == {<<x.p, x.r>> : x \in nodes}
Shows(o) == Places = Range(o.line) /\ up = o.up /\ \A p \in Parties : me[p].stage = o.vis[p]
Between(o, n) ==
  /\ Places \subseteq Range(o.line) \cup Range(n.line) /\ Range(o.line) \cap Range(n.line) \subseteq Places
  /\ up \subseteq o.up \cup n.up /\ o.up \cap n.up \subseteq up
  /\ \A p \in Parties : me[p].stage \in {o.vis[p], n.vis[p]}

TraceInit == Init /\ seen = 1 /\ Shows(Run[1])
TraceNext ==
  /\ seen < Len(Run) /\ Next
  /\ \/ seen' = seen + 1 /\ Shows(Run[seen])' /\ (TLCGet(1) < seen' => TLCSet(1, seen') /\ PrintT(<<"explained", seen'>>))
     \/ seen' = seen /\ Between(Run[seen], Run[seen + 1])'
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, seen>>

ASSUME TLCSet(1, 1)
NotExplained == seen < Len(Run)
=============================================================================
