------------------------------ MODULE LineTrace ------------------------------
(* Is a run of real locks a behaviour of Line? The run is a sequence of what  *)
(* an observer has seen, each time that it changed: the znodes of the line in *)
(* their order, and what each user knows. The rest of the state is hidden:   *)
(* TLC looks for steps of Line that explain what was seen.                   *)
(*                                                                           *)
(* TLC reports that NotExplained is violated if there are such steps. If it  *)
(* finds none, the run is refused, and the last line that it has printed says *)
(* how many observations are explained.                                      *)
EXTENDS Line, LineRun

VARIABLE seen \* so many observations are explained

\* What an observer sees: contenders with the number of their attempt, in the order of the line.
Place(n) == <<Node(n).c, Node(n).a>>
Ordered == [i \in 1..Cardinality(nodes) |->
  Place(CHOOSE n \in Numbers : Cardinality({o \in Numbers : o <= n}) = i)]
Places == {Place(n) : n \in Numbers}
Range(q) == {q[i] : i \in DOMAIN q}

Shows(o) == Ordered = o.line /\ \A c \in Contenders : me[c].vis = o.vis[c]

(* Between two observations each part has its old or its new value: what was  *)
(* seen at once may have happened in any order.                              *)
Between(o, p) ==
  /\ Places \subseteq Range(o.line) \cup Range(p.line)
  /\ Range(o.line) \cap Range(p.line) \subseteq Places
  /\ \A c \in Contenders : me[c].vis \in {o.vis[c], p.vis[c]}

TraceInit == Init /\ seen = 1 /\ Shows(Run[1])
TraceNext ==
  /\ seen < Len(Run) /\ Next
  /\ \/ seen' = seen + 1 /\ Shows(Run[seen])' /\ (TLCGet(1) < seen' => TLCSet(1, seen') /\ PrintT(<<"explained", seen'>>))
     \/ seen' = seen /\ Between(Run[seen], Run[seen + 1])'
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, seen>>

ASSUME TLCSet(1, 1)
NotExplained == seen < Len(Run)
=============================================================================
