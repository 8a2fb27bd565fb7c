// Package inspect reads what stands below a path, and says what it is: locks with their
// holders and waiters, semaphores, elections, queues, barriers, transactions, groups and values. It
// is for programs of operators, such as examples/zkactors.
//
// [Look] takes one [Survey]. [Watch] takes one after each change. [Break] takes a grant away from
// its holder.
//
// # What is recognised
//
// Nodes are recognised by their names and data, as this library, ZooKeeper's published recipes,
// Curator and kazoo write them. Some recipes write the same nodes:
//
//   - Curator's LeaderSelector is a lock, and kazoo's Election is a lock of kazoo.
//   - A path whose last contender has left is an empty node. It is not in the survey.
//   - Ephemeral nodes without a mark are members of a group. A node without data is a barrier,
//     and a node with data a value: of a configuration, or of a name, or Curator's barrier, which carries the
//     address of its client.
//   - The dead letters of a queue are a queue at another path.
//
// # Costs
//
// A survey reads every node below the path once. The items of queues are counted by bucket, and
// the oldest of a queue is read. At most [Options.Window] reads are under way at once, and at most [Options.MaxNodes] are
// made. While it is watched, a node that carries a contender is read once, whatever comes and goes around it.
// A directory with many names is listed at most twice in a pause, see [Options.Pause].
//
// A node that may not be read is [Thing.Forbidden], or [Contender.Forbidden]. It is no error.
//
// # Consistency
//
// ZooKeeper has no snapshots of several nodes. The survey syncs first. A line is listed, and its
// contenders are read after that; those that have gone meanwhile are left out. So every holder in
// a survey has held at some moment during the survey.
package inspect
