----------------------------- MODULE BarrierRun -----------------------------
(* An example of a run. trace_test.go puts the runs of real barriers in its place. *)
Apart == [a |-> "resting", b |-> "resting", c |-> "resting"]
Run == <<
  [line |-> <<>>, up |-> {1}, vis |-> Apart],
  [line |-> <<>>, up |-> {1}, vis |-> [Apart EXCEPT !["a"] = "gathering"]],
  [line |-> <<<<"a", 1>>>>, up |-> {1}, vis |-> [Apart EXCEPT !["a"] = "gathering"]]
>>
=============================================================================
