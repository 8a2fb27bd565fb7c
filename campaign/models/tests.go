// Package models runs the models and explorations of all machines, says what they have gone
// through, how soon they find planted mutants, and which rows of the machines they never reach.
package models

import (
	"os/exec"
	"slices"
)

// A Test is a test, or several of a package, that goes through a model.
type Test struct {
	Package string   // from the root
	Names   []string // of the tests
	Flags   []string // of a night
	Env     []string // likewise
	Seeded  bool     // it plays others with another seed
	Rows    bool     // it tests single rows of a machine, or stories, without a model
	Full    bool     // it takes hours, and does the same each time: only a full night has it
}

const (
	// Of package exploration, for each scenario.
	states, walks = "-explore.states=4000", "-explore.walks=2000"
	thorough      = "ZKACTORS_THOROUGH=1"
)

// specified has TLC check the specifications where there is Java.
func specified() []string {
	if _, err := exec.LookPath("java"); err != nil {
		return nil
	}
	return []string{"ZKACTORS_REQUIRE_TLC=1"}
}

// Tests returns the tests of a night, in their order.
func Tests() []Test {
	return []Test{
		{Package: "session", Names: []string{"TestMachineGrammar"}},
		{Package: "session", Names: []string{"TestSchedules"}, Flags: []string{"-session.schedules=500"}},
		{Package: "session/internal/lease", Names: []string{"TestLeaseModel"}, Flags: []string{"-lease.schedules=100000"}, Seeded: true},
		{Package: "session/internal/lease", Names: []string{"TestElectionsInModel"}},
		{Package: "watch", Names: []string{"TestEveryHistory", "TestNobodyActsAfterTheEnd"}},
		{Package: "watch", Names: []string{"TestTreeConverges"}, Env: []string{thorough}, Seeded: true},
		{Package: "actors", Names: []string{"TestAllSchedules"}},
		{Package: "primitives/internal/line", Names: []string{"TestExhaustion"}, Env: []string{thorough}},
		{Package: "primitives/internal/claim", Names: []string{"TestMachine"}},
		{Package: "primitives/internal/once", Names: []string{"TestEveryInputInEveryState"}},
		{Package: "primitives/internal/once", Names: []string{"TestOnceOrNotAtAll"}, Flags: []string{states, walks}, Seeded: true},
		{Package: "primitives/internal/once", Names: []string{"TestMutants"}},
		{Package: "primitives/internal/presence", Names: []string{"TestExhaustion"}, Env: []string{thorough}},
		{Package: "primitives/internal/presence", Names: []string{"TestModel"}, Flags: []string{states, walks}, Seeded: true},
		{Package: "primitives/internal/priority", Names: []string{"TestRivalries"}, Flags: []string{states, walks}, Seeded: true},
		{
			Package: "primitives/lock", Names: []string{"TestMeetings", "TestMeetingsFromAfar", "TestMeetingsWithDelay", "TestGatherings"},
			Flags: []string{states, walks}, Seeded: true,
		},
		{Package: "primitives/semaphore", Names: []string{"TestPools", "TestPoolWithAFrozenWaiter"}, Flags: []string{states, walks}, Seeded: true},
		{Package: "primitives/election", Names: []string{"TestExhaustion"}, Flags: []string{"-election.states=200000"}},
		{Package: "primitives/election", Names: []string{"TestCampaigns"}, Flags: []string{states, walks}, Seeded: true},
		{Package: "primitives/config", Names: []string{"TestEveryInputInEveryState"}, Env: []string{thorough}},
		{Package: "primitives/config", Names: []string{"TestOnceOrNotAtAll"}, Flags: []string{states, walks}, Seeded: true},
		{Package: "primitives/barrier", Names: []string{"TestRoundsInModel", "TestGatesInModel"}, Flags: []string{states, walks}, Seeded: true},
		{Package: "primitives/barrier", Names: []string{"TestAnyAnswer"}, Env: []string{thorough}, Seeded: true},
		{Package: "primitives/barrier", Names: []string{"TestFaultAtEachStep"}, Flags: []string{"-barrier.sweeps=1"}},
		{Package: "primitives/barrier", Names: []string{"TestMutants", "TestGateMutants"}, Env: []string{thorough}},
		{Package: "primitives/commit", Names: []string{"TestCoordinatorGrammar", "TestSiteGrammar"}, Seeded: true},
		{Package: "primitives/commit", Names: []string{"TestModel"}, Env: []string{thorough}},
		{Package: "primitives/commit", Names: []string{"TestModelWalks", "TestModelRelapses"}, Flags: []string{states, walks}, Seeded: true},
		{Package: "primitives/commit", Names: []string{"TestModelFaults"}},
		{Package: "primitives/commit", Names: []string{"TestMutants"}, Env: []string{thorough}},
		{Package: "primitives/queue", Names: []string{"TestChance"}, Env: []string{thorough}, Seeded: true},
		{Package: "primitives/queue", Names: []string{"TestFlatCalls"}},
		{Package: "primitives/queue", Names: []string{"TestOnce"}, Flags: []string{states, walks}, Seeded: true},
		{Package: "primitives/queue", Names: []string{"TestMutants"}},
		{Package: "primitives/shard", Names: []string{"TestSchedules"}, Flags: []string{"-shard.schedules=200000"}, Seeded: true},

		{Package: "watch", Names: []string{"TestRows", "TestTreeAnswers", "TestTranscriptsOfNodes", "TestTranscriptsOfChildren", "TestTranscriptsOfTrees"}, Rows: true},
		{
			Package: "primitives/internal/line", Rows: true,
			Names: []string{
				"TestDangers", "TestDangersOfReaders", "TestDangersOfDowngrades", "TestDangersOfRevocation", "TestDangersOfClaims", "TestTranscripts",
				"TestPredecessorGoesBeforeItIsWatched", "TestDependentMachine", "TestClaimingMachine", "TestConditionChanges", "TestNoTarget",
				"TestRankedIsAnotherLayout", "TestTwoTransactions",
			},
		},
		{Package: "primitives/internal/once", Names: []string{"TestRows", "TestOfAnEarlierSession"}, Rows: true},
		{Package: "primitives/internal/presence", Names: []string{"TestRows", "TestStood", "TestRefusal", "TestTranscripts"}, Rows: true},
		{Package: "primitives/election", Names: []string{"TestRows", "TestHeirClaims", "TestHeirOfLostData", "TestHeirAcknowledges"}, Rows: true},
		{Package: "primitives/config", Names: []string{"TestRows"}, Rows: true},
		{
			Package: "primitives/barrier", Rows: true,
			Names: []string{
				"TestGate", "TestWhyGatesAreLost", "TestRecordUnread", "TestAwaitedOfAnotherRecord", "TestMembersUnread", "TestEntrantsUnread",
				"TestBlocked", "TestOtherRecord",
			},
		},
		{
			Package: "primitives/commit", Rows: true,
			Names: []string{"TestCoordinatorRows", "TestResumedDecided", "TestSiteThatMayNotRead", "TestCoordinatorOfAnotherHistory", "TestSiteOfAnotherHistory", "TestBeatenAndNotTold", "TestUndone", "TestVoteUndone", "TestUnfounded"},
		},
		{
			Package: "primitives/queue", Rows: true,
			Names: []string{"TestFlatRows", "TestFlatRefusedList", "TestLostRead", "TestPausedWhileListed", "TestRejectedWhileLooking", "TestScatter", "TestRefusedSettlement", "TestRefusedWhileLeaving", "TestSettledAfterTheSession", "TestRefusedTakeBack", "TestAsidesAreForgotten", "TestLimitsGrowAgain", "TestNoteOfAClaimedItem"},
		},
		{Package: "primitives/shard", Names: []string{"TestTranscript", "TestRefusals", "TestYield", "TestErasedBeforeRead", "TestNeighbourBack", "TestStopped", "TestOtherNumber", "TestNoPlan", "TestDoubt"}, Rows: true},

		{Package: "spec", Names: []string{"TestModels", "TestMutants"}, Env: specified()},
		{Package: "primitives/commit", Names: []string{"TestModel", "TestModelFaults"}, Flags: []string{"-commit.full"}, Full: true},
		{Package: "spec", Names: []string{"TestModels"}, Flags: []string{"-spec.full"}, Env: specified(), Full: true},
	}
}

// Same reports whether two tests are one of [Tests].
func (t Test) Same(o Test) bool {
	return t.Package == o.Package && slices.Equal(t.Names, o.Names) && slices.Equal(t.Flags, o.Flags)
}

// A machine has the files of a machine. Each row of it is to be reached.
type machine struct {
	pkg   string
	files []string
}

// machines are the pure machines, and what they consist of. Those of group, naming and discovery
// are a few cases over that of presence: they have no model, and their rows have tests.
func machines() []machine {
	return []machine{
		{"session", []string{"machine.go"}},
		{"session/internal/lease", []string{"lease.go", "stake.go", "beats.go"}},
		{"watch", []string{"machine.go", "treemachine.go"}},
		{"primitives/internal/line", []string{"machine.go", "step.go", "first.go", "holding.go", "joining.go", "waiting.go", "rule.go", "several.go"}},
		{"primitives/internal/claim", []string{"machine.go"}},
		{"primitives/internal/once", []string{"machine.go"}},
		{"primitives/internal/presence", []string{"machine.go"}},
		{"primitives/election", []string{"machine.go"}},
		{"primitives/config", []string{"machine.go"}},
		{"primitives/barrier", []string{"machine.go", "gatemachine.go"}},
		{"primitives/commit", []string{"machine.go", "sitemachine.go"}},
		{"primitives/queue", []string{"machine.go", "flatmachine.go"}},
		{"primitives/shard", []string{"machine.go"}},
	}
}
