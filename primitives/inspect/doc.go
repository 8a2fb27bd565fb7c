// Package inspect reads the nodes below a path and reports which recipes they belong to: locks with
// their holders and waiters, semaphores, elections, queues, barriers, latches, transactions,
// groups, services, shards and values. It is for operators' programs, such as examples/zkactors.
//
// [Look] takes one [Survey]. [Watch] takes one after each change. [Break] takes a grant away from
// its holder.
//
// # Recognition
//
// A recipe is recognised by the names and the data of its nodes, as this library, ZooKeeper's
// published recipes, Curator and kazoo write them. Some recipes write the same nodes:
//
//   - Curator's LeaderSelector is a lock, and kazoo's Election is a lock of kazoo.
//   - A path whose last contender has left is an empty node. It is not in the survey.
//   - Ephemeral nodes without a mark are members of a group. If each has the data of an instance,
//     they are a service.
//   - A persistent node that has no data, and has never had children, is a barrier.
//   - A node with data is a value: of a configuration, or of a name. Curator's barrier looks the
//     same, because its node has the address of its client as data.
//   - The dead letters of a queue are a queue, below its path or elsewhere.
//   - What stands below the path of a recipe, and is no part of it, is recognised by itself.
//
// # Costs
//
// A survey reads every node below the path once. It counts the items of a queue by bucket, and
// reads only the oldest of each priority. At most [Options.Window] reads are in flight at once, and
// a survey makes at most [Options.MaxNodes]. [Watch] reads what has changed, and the node of each
// contender once, whatever comes and goes around it: a change among 20,000 locks costs the reads of
// one lock. A directory with many names is listed at most twice in a pause, see [Options.Pause].
//
// A node that the session may not read is marked as [Thing.Forbidden] or [Contender.Forbidden]. It
// is no error.
//
// # Consistency
//
// ZooKeeper has no snapshots of several nodes. A survey begins with a sync. It lists a line first,
// then reads the contenders, and leaves out those that have gone meanwhile. So every holder in a
// survey has held at some moment during the survey.
//
// In short: a survey is not the state of one moment, and everything in it was true during it.
package inspect
