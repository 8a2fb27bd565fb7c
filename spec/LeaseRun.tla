------------------------------- MODULE LeaseRun -------------------------------
(* An example of a run. lease_test.go puts the runs of real sessions in its place. *)
Calm == [at |-> 0, sent |-> 0, came |-> 0, asked |-> <<>>, link |-> "open", vis |-> "connected",
         has |-> TRUE, deposed |-> FALSE, frozen |-> FALSE]
Cutoff == [Calm EXCEPT !.at = 1000000, !.sent = 1, !.came = 1, !.link = "down", !.vis = "suspended"]
Run == <<
  Calm,
  [Calm EXCEPT !.at = 500000, !.sent = 1, !.asked = <<"sync">>],
  [Calm EXCEPT !.at = 504000, !.sent = 1, !.came = 1],
  Cutoff,
  [Cutoff EXCEPT !.at = 1950000, !.vis = "lapsed"],
  [Cutoff EXCEPT !.at = 2600000, !.vis = "lapsed", !.has = FALSE]
>>
=============================================================================
