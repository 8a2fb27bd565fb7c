"""The bench's driver of kazoo. The protocol is in ../driver/driver.go."""

import itertools
import logging
import queue
import resource
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.recipe.queue import LockingQueue, Queue

logging.basicConfig(level=logging.CRITICAL)
output = threading.Lock()
QUANTILES = 1000
PAYLOAD = bytes(100)


def say(line):
    with output:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def wait(line):
    say(line)
    answer = sys.stdin.readline()
    if answer != "go\n":
        raise RuntimeError("%r is no answer to %s" % (answer, line))


def cpu_time():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def megabytes(field):
    """Return a field of this process's status."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    return 0


def each(n, part):
    """Call part for all numbers below n at once, and raise the first exception."""
    errors = []

    def run(i):
        try:
            part(i)
        except Exception as e:  # pylint: disable=broad-except
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


class Limit:
    """Decides when a phase ends: after a number of operations, or after a time."""

    def __init__(self, ops, seconds):
        self.counter, self.ops = itertools.count(), ops
        self.deadline = time.monotonic() + seconds

    def share(self, workers):
        """Return the limit of one of several workers, which all do the same number of operations."""
        return Limit(max(1, self.ops // workers), 0) if self.ops else self

    def next(self):
        if self.ops:
            return next(self.counter) < self.ops
        return time.monotonic() < self.deadline


class Run:
    """One execution of a program."""

    def __init__(self, words):
        self.params = dict(w.split("=", 1) for w in words[2:])
        self.path = self.params["path"]
        self.clients, self.samples = [], []
        self.ops, self.elapsed, self.cpu, self.extras, self.resident = 0, 0, 0, "", 0

    def number(self, name, fallback):
        return int(self.params.get(name, fallback))

    def limit(self, prefix):
        return Limit(self.number(prefix + "ops", 0), float(self.params.get(prefix + "seconds", 1)))

    def open(self, n):
        self.clients = [self.client() for _ in range(n)]

    def client(self):
        client = KazooClient(hosts=self.params["servers"], timeout=self.number("timeout_ms", 20000) / 1000)
        client.start(timeout=15)
        return client

    def close(self):
        for c in self.clients:
            c.stop()
            c.close()

    def measure(self, measured):
        self.samples = []
        wait("begin")
        cpu, began = cpu_time(), time.monotonic()
        self.ops = measured(self.limit(""))
        self.elapsed, self.cpu = time.monotonic() - began, cpu_time() - cpu
        wait("end")

    def phase(self, limit, workers, op):
        samples = [[] for _ in range(workers)]

        def work(w):
            mine, turn, share = samples[w], 0, limit.share(workers)
            while share.next():
                began = time.monotonic()
                op(w, turn)
                mine.append(time.monotonic() - began)
                turn += 1

        each(workers, work)
        self.samples = [s for mine in samples for s in mine]
        return len(self.samples)

    def loop(self, workers, op):
        self.phase(self.limit("warm_"), workers, op)
        self.measure(lambda limit: self.phase(limit, workers, op))

    def report(self):
        every, n = sorted(self.samples), len(self.samples)
        if n:
            parts = min(QUANTILES, n - 1)
            at = [i * (n - 1) // parts if parts else 0 for i in range(parts + 1)]
            say("latencies " + " ".join("%.1f" % (every[i] * 1e6) for i in at))
        say("result ops=%d seconds=%.6f cpu_us=%d" % (self.ops, self.elapsed, self.cpu * 1e6) + self.extras)

    # The programs.

    def lock(self):
        sessions, locks = self.number("sessions", 1), self.number("locks", 1)
        shared = self.params.get("shared") == "1"
        self.open(sessions)
        every = [
            self.clients[i % sessions].Lock(self.path + "/" + ("one" if shared else str(i)), str(i))
            for i in range(sessions * locks)
        ]

        def op(w, _):
            every[w].acquire()
            every[w].release()

        self.loop(len(every), op)

    def readwrite(self):
        self.open(self.number("sessions", 1))
        readers = [c.ReadLock(self.path, str(i)) for i, c in enumerate(self.clients)]
        writers = [c.WriteLock(self.path, str(i)) for i, c in enumerate(self.clients)]
        done = itertools.count(1)

        def op(w, turn):
            lock = writers[w] if (w + turn) % 10 == 0 else readers[w]
            lock.acquire()
            lock.release()
            say("progress %d" % next(done))

        self.loop(len(self.clients), op)

    def semaphore(self):
        self.open(self.number("sessions", 1))
        every = [
            self.clients[i % len(self.clients)].Semaphore(self.path, str(i), max_leases=self.number("leases", 1))
            for i in range(self.number("contenders", 1))
        ]

        def op(w, _):
            every[w].acquire()
            every[w].release()

        self.loop(len(every), op)

    def succession(self):
        self.open(self.number("candidates", 2))
        elected, resign, over = queue.Queue(), [threading.Event() for _ in self.clients], threading.Event()

        def candidate(i):
            def lead():
                elected.put(i)
                resign[i].wait()
                resign[i].clear()

            while not over.is_set():
                self.clients[i].Election(self.path, str(i)).run(lead)

        for i in range(len(self.clients)):
            threading.Thread(target=candidate, args=(i,), daemon=True).start()
        leader, rest = elected.get(), self.number("rest_ms", 0) / 1000

        def phase(limit):
            nonlocal leader
            self.samples = []
            while limit.next():
                began = time.monotonic()
                resign[leader].set()
                leader = elected.get()
                self.samples.append(time.monotonic() - began)
                time.sleep(rest)
            return len(self.samples)

        phase(self.limit("warm_"))
        self.measure(phase)
        over.set()
        for e in resign:
            e.set()

    def stand(self):
        self.open(1)
        election, elected = self.clients[0].Election(self.path), threading.Event()

        def lead():
            elected.set()
            threading.Event().wait()

        threading.Thread(target=lambda: election.run(lead), daemon=True).start()
        while not election.lock.node or election.lock.node not in self.children():
            pass
        wait("ask standing")
        elected.wait()
        wait("ask elected")

    def children(self):
        return self.clients[0].get_children(self.path) if self.clients[0].exists(self.path) else []

    def barrier(self):
        parties = self.number("parties", 2)
        self.open(parties)
        every = [c.DoubleBarrier(self.path, parties, str(i)) for i, c in enumerate(self.clients)]
        done, phases = 0, itertools.count()

        def rounds(limit):
            last, samples, phase = [float("inf")], [], "%s/%d-" % (self.path, next(phases))

            def party(p):
                nonlocal done
                i = 0
                while i < last[0]:
                    if p == 0 and not limit.next():
                        last[0] = i + 1
                    if self.params.get("paths") == "each":
                        every[p] = self.clients[p].DoubleBarrier(phase + str(i), parties, str(p))
                    began = time.monotonic()
                    every[p].enter()
                    every[p].leave()
                    if p == 0:
                        samples.append(time.monotonic() - began)
                        done += 2 * parties
                        say("progress %d" % done)
                    i += 1

            each(parties, party)
            self.samples = samples
            return 2 * parties * len(samples)

        rounds(self.limit("warm_"))
        self.measure(rounds)

    def put(self):
        self.open(1)
        batch = self.number("batch", 1)
        if batch == 1:
            q = Queue(self.clients[0], self.path)
            self.loop(self.number("producers", 1), lambda w, turn: q.put(PAYLOAD))
            return
        q = LockingQueue(self.clients[0], self.path)  # kazoo's Queue has no transactions
        items = [PAYLOAD] * batch
        self.loop(self.number("producers", 1), lambda w, turn: q.put_all(items))
        self.ops *= batch

    def fill(self, prefix, items):
        """Put items in transactions, which kazoo's Queue cannot do."""
        for i in range(0, items, 500):
            transaction = self.clients[0].transaction()
            for _ in range(min(500, items - i)):
                transaction.create(prefix, PAYLOAD, sequence=True)
            transaction.commit()

    def drain(self):
        self.open(1)
        items = self.number("items", 1)

        def take(path, n, seconds):
            q = Queue(self.clients[0], path)
            deadline, taken = time.monotonic() + seconds, 0
            while taken < n and time.monotonic() < deadline:
                if q.get() is None:
                    raise RuntimeError("empty after %d" % taken)
                taken += 1
                if taken % 100 == 0:
                    say("progress %d" % taken)
            return taken

        for phase, n in (("/warm", min(items, 200)), ("/it", items)):
            self.clients[0].ensure_path(self.path + phase)
            self.fill(self.path + phase + "/entry-100-", n)
            if phase == "/warm":
                take(self.path + phase, n, 10)
        self.measure(lambda limit: take(self.path + "/it", items, self.number("cap_seconds", 60)))

    def consume(self):
        consumers, items = self.number("consumers", 1), self.number("items", 1)
        self.open(consumers)

        def work(path, n, limit):
            done, every = itertools.count(1), [0] * consumers

            def consumer(i):
                q = LockingQueue(self.clients[i], path)
                while next(done) <= n and (limit is None or limit.next()):
                    q.get()
                    if not q.consume():
                        raise RuntimeError("not consumed")
                    every[i] += 1

            each(consumers, consumer)
            return sum(every)

        for phase, n in (("/warm", min(items, 100)), ("/it", items)):
            path = self.path + phase
            self.clients[0].ensure_path(path + "/entries")
            self.fill(path + "/entries/entry-100-", n)
            if phase == "/warm":
                work(path, n, None)
        counted = self.number("ops", 0) > 0
        self.measure(lambda limit: work(self.path + "/it", items, None if counted else limit))

    def flow(self):
        """Have items put and delivered at the same time."""
        takers, acknowledged = self.number("takers", 1), self.params.get("kind") == "acknowledged"
        self.open(1 + takers)

        def phase(path, limit):
            self.samples = []
            flight, over = threading.Semaphore(self.number("flight", 64)), threading.Event()
            queues = [(LockingQueue if acknowledged else Queue)(c, path) for c in self.clients]

            def deliver(data):
                self.samples.append((time.monotonic_ns() - int.from_bytes(data[:8], "big")) / 1e9)
                if len(self.samples) % 100 == 0:
                    say("progress %d" % len(self.samples))

            def produce(_):
                while limit.next():
                    flight.acquire()
                    queues[0].put(time.monotonic_ns().to_bytes(8, "big") + PAYLOAD[8:])

            def take(i):
                while not over.is_set():
                    data = queues[i].get(timeout=0.2) if acknowledged else queues[i].get()
                    if data is None:
                        continue
                    deliver(data)
                    if acknowledged and not queues[i].consume():
                        raise RuntimeError("not consumed")
                    flight.release()

            def part(i):
                if i > 0:
                    take(i)
                    return
                try:
                    each(self.number("producers", 1), produce)
                    for _ in range(self.number("flight", 64)):  # the last has been delivered
                        flight.acquire()
                finally:
                    over.set()

            each(1 + takers, part)
            return len(self.samples)

        phase(self.path + "/warm", self.limit("warm_"))
        self.measure(lambda limit: phase(self.path + "/it", limit))

    def join(self):
        self.open(self.number("sessions", 1) + 1)
        members = self.number("members", 1)

        def shot(path):
            """Wait until another session knows of all members, and return how long that took."""
            told = threading.Event()
            self.clients[0].ensure_path(path)

            @self.clients[0].ChildrenWatch(path)
            def _changed(names):
                if len(names) == members:
                    told.set()
                    return False
                return True

            began = time.monotonic()
            parties = [
                self.clients[1 + i % (len(self.clients) - 1)].Party(path, "member-%d" % i) for i in range(members)
            ]
            groups = len(self.clients) - 1

            def some(s):
                for p in parties[s::groups]:
                    p.join()

            each(groups, some)
            told.wait()
            return time.monotonic() - began

        shot(self.path + "/warm")

        def measured(_):
            self.samples = [shot(self.path + "/it")]
            return members

        self.measure(measured)

    def fanout(self):
        self.open(self.number("sessions", 1) + 1)
        n, writer = self.number("watchers", 1), self.clients[0]
        writer.create(self.path, b"first", makepath=True)
        told = queue.Queue()
        for i in range(n):
            client = self.clients[1 + i % (len(self.clients) - 1)]
            client.DataWatch(self.path, lambda data, stat: told.put((data, time.monotonic())) and None)

        def await_all(value, began):
            seen = []
            while len(seen) < n:
                data, at = told.get()
                if data == value:
                    seen.append(at - began)
            return seen

        await_all(b"first", 0)
        values = itertools.count(1)

        def phase(limit):
            self.samples = []
            while limit.next():
                value = b"%d" % next(values)
                began = time.monotonic()
                written = writer.set_async(self.path, value)
                self.samples += await_all(value, began)
                written.get()
            return len(self.samples)

        phase(self.limit("warm_"))
        self.measure(phase)

    def fresh(self, tree, use):
        """Call use with a client that has seen no tree. Its server has the tree."""
        client = self.client()
        client.sync(tree)  # its server may lag
        try:
            use(client)
        finally:
            client.stop()
            client.close()

    @staticmethod
    def leaves(tree, nodes):
        """Return the leaves of a tree that the bench has created."""
        return ["%s/d%04d/n%02d" % (tree, d, n) for d in range((nodes + 99) // 100) for n in range(99)]

    @staticmethod
    def follow(client, tree, leaves, listener=None):
        """Return the cache of the tree when it is complete."""
        complete, added, cache = threading.Event(), itertools.count(), TreeCache(client, tree)

        def told(event):
            if event.event_type == TreeEvent.INITIALIZED:
                complete.set()
            elif event.event_type == TreeEvent.NODE_ADDED:
                next(added)
            elif listener and event.event_type == TreeEvent.NODE_UPDATED:
                listener(event.event_data.data)

        cache.listen(told)
        cache.start()
        complete.wait()
        nodes, expected = next(added), 1 + len(leaves) // 99 * 100
        if nodes != expected:
            raise RuntimeError("%d nodes of %d" % (nodes, expected))
        return cache

    def memory(self, name, field):
        self.resident = max(self.resident, megabytes(field))  # the kernel notes a peak late
        self.extras += " MB_resident_%s=%.1f" % (name, self.resident)

    def tree(self):
        warm, tree = self.path + "/warm", self.path + "/it"
        limit, leaves = self.limit("warm_"), self.leaves(warm, self.number("warm_nodes", 1))
        while limit.next():
            self.fresh(warm, lambda client: self.follow(client, warm, leaves).close())
        leaves = self.leaves(tree, self.number("nodes", 1))

        def load(client):
            cache = None

            def measured(_):
                nonlocal cache
                began = time.monotonic()
                cache = self.follow(client, tree, leaves)
                self.samples.append(time.monotonic() - began)
                return 1

            self.memory("before", "VmRSS:")
            self.measure(measured)
            self.memory("peak", "VmHWM:")
            cache.close()

        self.fresh(tree, load)

    def tree_change(self):
        self.changes(self.path + "/warm", self.number("warm_nodes", 1), lambda phase: phase(self.limit("warm_")))

        def measured(phase):
            self.memory("before", "VmRSS:")
            self.measure(phase)
            self.memory("peak", "VmHWM:")

        self.changes(self.path + "/it", self.number("nodes", 1), measured)

    def changes(self, tree, nodes, use):
        """Call use with a phase that changes nodes, each after the follower has seen the change before."""
        leaves, told, values = self.leaves(tree, nodes), queue.Queue(), itertools.count()
        self.clients.append(self.client())
        writer = self.clients[-1]

        def phase(limit):
            self.samples = []
            while limit.next():
                n = next(values)
                value, began = b"%d" % n, time.monotonic()
                written = writer.set_async(leaves[n * 37 % len(leaves)], value)
                while told.get() != value:
                    pass
                self.samples.append(time.monotonic() - began)
                written.get()
            return len(self.samples)

        def followed(client):
            cache = self.follow(client, tree, leaves, told.put)
            use(phase)
            cache.close()

        self.fresh(tree, followed)

    def rebalance(self):
        """Have one of the members go and come by turns, until all shards are owned evenly again."""
        members, shards = self.number("members", 1), self.number("shards", 1)
        self.open(members)
        owned, changed, over = {}, threading.Condition(), [threading.Event() for _ in range(members)]

        def member(i):
            try:
                work(i)
            except Exception as e:  # pylint: disable=broad-except
                say("failed " + repr(e).replace("\n", " "))

        def work(i):
            # with less than a second it never finds the group at rest when several come
            p = self.clients[i].SetPartitioner(self.path, set(str(n) for n in range(shards)), identifier=str(i), time_boundary=1)
            while not over[i].is_set():
                if p.failed:
                    raise RuntimeError("failed")
                if p.release:
                    with changed:
                        owned[i] = 0
                    p.release_set()
                elif p.acquired:
                    with changed:
                        owned[i] = len(list(p))
                        changed.notify_all()
                    time.sleep(0.005)
                elif p.allocating:
                    p.wait_for_acquire(0.1)
            p.finish()

        def even():
            least = shards // len(owned)
            return sum(owned.values()) == shards and all(least <= n <= least + 1 for n in owned.values())

        def await_even():
            with changed:
                changed.wait_for(even)

        threads = {}

        def begin(i):
            over[i].clear()
            with changed:
                owned[i] = 0
            threads[i] = threading.Thread(target=member, args=(i,), daemon=True)
            threads[i].start()

        for i in range(members):
            begin(i)
        await_even()
        last = members - 1

        def phase(limit):
            self.samples, there = [], True
            while not there or limit.next():
                began = time.monotonic()
                if there:
                    over[last].set()
                    threads[last].join()
                    with changed:
                        del owned[last]
                else:
                    begin(last)
                await_even()
                self.samples.append(time.monotonic() - began)
                say("progress %d" % len(self.samples))
                there = not there
            return len(self.samples)

        phase(self.limit("warm_"))
        self.measure(phase)
        for i in range(members):
            over[i].set()
        for t in threads.values():
            t.join()


PROGRAMS = (
    "lock", "readwrite", "semaphore", "succession", "stand", "barrier", "put", "drain", "consume", "flow", "join", "fanout", "rebalance",
    "tree", "tree-change",
)


def main():
    for line in iter(sys.stdin.readline, ""):
        words = line.split()
        run = Run(words)
        try:
            if words[1] not in PROGRAMS:
                raise ValueError("there is no program " + words[1])
            getattr(run, words[1].replace("-", "_"))()
            run.close()
            run.report()
        except Exception as e:  # pylint: disable=broad-except
            run.close()
            say("failed " + repr(e).replace("\n", " "))


main()
