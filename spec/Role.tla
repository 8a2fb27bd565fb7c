--------------------------------- MODULE Role ---------------------------------
(* How a session finds out that its server follows another:                  *)
(* session/internal/conn/role.go, docs/adr/0090. It asks the server at the   *)
(* address of its connection, on another connection, and waits for an answer *)
(* of its own to a later request. Two servers may take the address, one      *)
(* after the other. A server closes its connections before it becomes        *)
(* anything else, and the client learns of that later. What is on the wire   *)
(* then may still arrive.                                                     *)
EXTENDS Integers, Sequences

CONSTANTS
  Servers,
  Requests, \* how many requests the client sends
  Changes,  \* how often a server becomes something else, or another takes the address
  Connects, \* how often the client connects
  Broken    \* the rules that a mutant breaks; {} is the protocol

VARIABLES
  role,                 \* of each server: "looks", "follows" or "leads"
  holder,               \* the server that has the address
  conn,                 \* the server of the client's connection, as that server knows it; "none"
  open,                 \* the client has a connection, as it knows
  toServer, toClient,   \* its wires
  question,             \* on the other connection: "none", "asked", or the answer on its way
  said, learned,        \* what a server has said, and how many requests the client had sent by then
  known,                \* what the client counts on: "unknown", "follows" or "leads"
  sent, changes, connects,
  deceived              \* an answer of a server that does not follow counted as one of a server that does

server == <<role, holder>>
wires == <<toServer, toClient>>
asking == <<question, said, learned>>
counts == <<sent, changes, connects>>
vars == <<server, conn, open, wires, asking, known, counts, deceived>>

Init ==
  /\ role \in [Servers -> {"follows", "leads"}]
  /\ holder \in Servers
  /\ conn = "none" /\ open = FALSE
  /\ toServer = <<>> /\ toClient = <<>>
  /\ question = "none" /\ said = "none" /\ learned = 0 /\ known = "unknown"
  /\ sent = 0 /\ changes = 0 /\ connects = 0 /\ deceived = FALSE

-----------------------------------------------------------------------------
(* The servers.                                                              *)

Leave(s) ==
  /\ changes < Changes /\ role[s] # "looks"
  /\ changes' = changes + 1
  /\ role' = [role EXCEPT ![s] = "looks"]
  /\ conn' = IF conn = s /\ "connections are kept" \notin Broken THEN "none" ELSE conn
  /\ toServer' = IF conn = s /\ "connections are kept" \notin Broken THEN <<>> ELSE toServer
  /\ UNCHANGED <<holder, open, toClient, asking, known, sent, connects, deceived>>

Become(s, r) ==
  /\ role[s] = "looks"
  /\ role' = [role EXCEPT ![s] = r]
  /\ UNCHANGED <<holder, conn, open, wires, asking, known, counts, deceived>>

(* A server keeps its address for as long as it runs.                        *)
Move(s) ==
  /\ changes < Changes /\ s # holder /\ role[holder] = "looks" /\ role[s] = "looks"
  /\ changes' = changes + 1 /\ holder' = s
  /\ UNCHANGED <<role, conn, open, wires, asking, known, sent, connects, deceived>>

Serve ==
  /\ conn # "none" /\ toServer # <<>>
  /\ toClient' = Append(toClient, [n |-> Head(toServer), role |-> role[conn]])
  /\ toServer' = Tail(toServer)
  /\ UNCHANGED <<server, conn, open, asking, known, counts, deceived>>

Say(s) ==
  /\ question = "asked" /\ role[s] # "looks"
  /\ s = holder \/ "any server is asked" \in Broken
  /\ question' = role[s]
  /\ UNCHANGED <<server, conn, open, wires, said, learned, known, counts, deceived>>

-----------------------------------------------------------------------------
(* The client.                                                               *)

Connect ==
  /\ ~open /\ connects < Connects /\ role[holder] # "looks"
  /\ connects' = connects + 1
  /\ open' = TRUE /\ conn' = holder /\ toServer' = <<>> /\ toClient' = <<>>
  /\ question' = "none" /\ said' = "none" /\ learned' = 0
  /\ known' = IF "it counts for later connections" \in Broken THEN known ELSE "unknown"
  /\ UNCHANGED <<server, sent, changes, deceived>>

Notice ==
  /\ open /\ conn = "none"
  /\ open' = FALSE
  /\ UNCHANGED <<server, conn, wires, asking, known, counts, deceived>>

Send ==
  /\ open /\ sent < Requests
  /\ sent' = sent + 1
  /\ toServer' = IF conn = "none" THEN toServer ELSE Append(toServer, sent + 1)
  /\ UNCHANGED <<server, conn, open, toClient, asking, known, changes, connects, deceived>>

Ask ==
  /\ open /\ question = "none" /\ said = "none"
  /\ question' = "asked"
  /\ UNCHANGED <<server, conn, open, wires, said, learned, known, counts, deceived>>

Hear ==
  /\ open /\ question \in {"follows", "leads"}
  /\ said' = question /\ learned' = sent /\ question' = "none"
  /\ known' = IF "it counts at once" \in Broken THEN question ELSE known
  /\ UNCHANGED <<server, conn, open, wires, counts, deceived>>

Receive ==
  /\ open /\ toClient # <<>>
  /\ LET a == Head(toClient)
         later == a.n > learned \/ "any answer confirms it" \in Broken
     IN /\ known' = IF said # "none" /\ later THEN said ELSE known
        /\ deceived' = (deceived \/ (known' = "follows" /\ a.role # "follows"))
  /\ toClient' = Tail(toClient)
  /\ UNCHANGED <<server, conn, open, toServer, asking, counts>>

Next ==
  \/ \E s \in Servers : Leave(s) \/ Become(s, "follows") \/ Become(s, "leads") \/ Move(s) \/ Say(s)
  \/ Serve \/ Connect \/ Notice \/ Send \/ Ask \/ Hear \/ Receive

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

NotDeceived == ~deceived
(* It is found out, in some behaviour: the negation must not hold.           *)
NeverKnown == known # "follows"
=============================================================================
