package real

import (
	"slices"
	"time"

	"github.com/zkactors/zkactors/session/zktest"
)

// A Scenario is a kind of trouble.
type Scenario struct {
	Name, About string

	// Prepare changes what the ensemble is; nil for none.
	Prepare func(config *zktest.EnsembleConfig)

	// Play strikes until the end of the world's course, and leaves no server down or stopped.
	Play func(w *World)
}

// All returns the scenarios.
func All() []Scenario {
	return []Scenario{
		{"killed-leader", "kill -9 of the leader, which comes back", nil, each(2*time.Second, killLeader)},
		{"killed-follower", "kill -9 of a follower, which comes back", nil, each(time.Second, killFollower)},
		{"killed-all", "kill -9 of all servers, which come back", nil, each(4*time.Second, killAll)},
		{"frozen-leader", "the leader is stopped for longer than an election takes, and goes on", nil, each(3*time.Second, freezeLeader)},
		{"frozen-follower", "a follower is stopped, also for longer than sessions live, and goes on", nil, each(2*time.Second, freezeFollower)},
		{"rolling-restart", "an operator restarts the servers one after the other, the leader last", nil, rollingRestart},
		{"rolling-upgrade", "servers become those of the next version, one after the other, and go back", nil, rollingUpgrade},
		{"mixed-versions", "one server is of another version; servers are killed", mixed, each(2*time.Second, killAny)},
		{"cut-clients", "the connections of a process break", nil, each(300*time.Millisecond, cutClient)},
		{"one-way-cuts", "what flows in one direction between a process and the servers stops", nil, each(2*time.Second, oneWay)},
		{"expiries", "nothing flows between a process and the servers for longer than its session lives", nil, each(4*time.Second, silence)},
		{"lost-requests", "requests are lost with their connection", nil, each(300*time.Millisecond, loseRequest)},
		{"lost-replies", "requests are done, and their replies are lost with their connection", nil, each(300*time.Millisecond, loseReply)},
		{"slow-connections", "what processes and servers say takes hundreds of milliseconds", nil, each(2*time.Second, slowClient)},
		{"cut-links", "the link between two servers is cut", nil, each(2*time.Second, cutLink)},
		{"one-way-links", "what one server sends to another is lost, and not what the other sends", nil, each(2*time.Second, cutLinkOneWay)},
		{"slow-links", "what one server sends to another comes seconds later", nil, each(time.Second, holdLink)},
		{"isolated-follower", "a follower is cut off from the others, and goes on answering reads", nil, each(2*time.Second, isolateFollower)},
		{"isolated-leader", "the leader is cut off from the others, which elect another", nil, each(3*time.Second, isolateLeader)},
		{"deposed-leader", "another leader is elected, and the old one does not learn it, and answers syncs", deaf, each(4*time.Second, depose)},
		{"killed-clients", "kill -9 of a process, which comes back under its name", nil, each(2*time.Second, killClient)},
		{"frozen-clients", "a process is stopped for longer than its session lives, and goes on", nil, each(3*time.Second, freezeClient)},
		{"operators", "an operator deletes nodes of the recipes", nil, each(500*time.Millisecond, remove)},
		{"restores", "the servers come back with a backup", nil, restore},
		{"overload", "one client keeps the servers busy", nil, overload},
		{"everything", "one of these after the other", nil, each(time.Second, anything)},
	}
}

// Find returns the scenario with the name.
func Find(name string) (Scenario, bool) {
	all := All()
	i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return all[i], true
}

// Versions are the versions of the matrix. "" is Debian's.
func Versions() []string { return []string{"3.5.10", "3.6.4", "3.7.2", "", "3.8.6", "3.9.5"} }

// next returns the version to which a rolling upgrade goes.
func next(version string) string {
	switch version {
	case "3.5.10":
		return "3.6.4"
	case "3.6.4":
		return "3.7.2"
	case "3.7.2":
		return "3.8.6"
	case "3.9.5": // there is no later one
		return "3.8.6"
	}
	return "3.9.5"
}

// mixed makes the last server one of the next version.
func mixed(config *zktest.EnsembleConfig) {
	config.Versions = []string{config.Version, config.Version, next(config.Version)}
	config.Version = ""
}

// deaf has a deposed leader go on for six seconds.
func deaf(config *zktest.EnsembleConfig) { config.SyncLimit = 60 }

// each strikes again and again.
func each(pause time.Duration, strike func(w *World)) func(w *World) {
	return func(w *World) { w.Each(pause, func() { strike(w) }) }
}
