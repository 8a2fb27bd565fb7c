// Package peers lets tests contend with other libraries: Curator and kazoo. Each runs in a process
// of its own, connects to given servers, and executes the commands of the test. Only tests import
// this package.
//
// [Start] runs a [Library]. [Peer.Join] has the library stand in line with one of its recipes (a
// [Kind]), and returns a [Claim], which reports the grant and the end. A [Company] starts each
// library when a test first uses it.
//
// A library is Debian's package, or a named version that is fetched once into the user's cache
// directory. A [Generation] is a version of each library. [Meet] runs tests with each generation,
// and with both in one line.
//
// Every contender in line, a peer or the library under test, is a [Contender]. [Company.Contend]
// has the contenders of a [Row] contend: in [Pairs], where each tries while another holds, and in a
// [Mix], where all of them take turns on one path. Both keep a [Room], the resource that the path
// protects.
//
// Barriers and queues have claims too. The claim of a [CuratorBarrier] or a [KazooBarrier] holds
// when its wait is over. The claim of a queue holds at once, for [Claim.Put] and [Claim.Take]. So
// does the claim of a counter, for [Claim.Add]. [Peer.Raise] and [Peer.Lift] are the other half of
// a barrier.
//
// # What is proven
//
// A peer reports a grant after it has acquired, and releases after it has received the command. So
// it holds for at least the time for which the test believes that it holds: two contenders in the
// room were two holders. While exclusive holders are in the room they also write the same node, and
// each expects the version that the previous holder left.
package peers
