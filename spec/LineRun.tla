------------------------------- MODULE LineRun -------------------------------
(* An example of a run. trace_test.go puts the runs of real locks in its place. *)
Quiet1 == [a |-> "in line", b |-> "in line", c |-> "in line"]
Run == <<
  [line |-> <<>>, vis |-> Quiet1],
  [line |-> <<<<"a", 1>>>>, vis |-> Quiet1],
  [line |-> <<<<"a", 1>>>>, vis |-> [Quiet1 EXCEPT !["a"] = "held"]],
  [line |-> <<<<"a", 1>>, <<"b", 1>>>>, vis |-> [Quiet1 EXCEPT !["a"] = "held"]],
  [line |-> <<<<"b", 1>>>>, vis |-> [Quiet1 EXCEPT !["a"] = "released"]],
  [line |-> <<<<"b", 1>>>>, vis |-> [Quiet1 EXCEPT !["a"] = "released", !["b"] = "held"]]
>>
=============================================================================
