import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;

/** The bench's driver of Curator. The protocol is in ../driver/driver.go. */
public class Curator {
    interface Op {
        void run(int worker, int turn) throws Exception;
    }

    interface Part {
        void run(int number) throws Exception;
    }

    interface Deliver {
        void run(byte[] data) throws Exception;
    }

    /** The data of items as they are. */
    static class Bytes implements QueueSerializer<byte[]> {
        @Override
        public byte[] serialize(byte[] item) {
            return item;
        }

        @Override
        public byte[] deserialize(byte[] bytes) {
            return bytes;
        }
    }

    interface Measured {
        long run(Limit limit) throws Exception;
    }

    /** Decides when a phase ends: after a number of operations, or after a time. */
    static class Limit {
        final long ops;
        final AtomicLong left;
        final long deadline;

        Limit(long ops, double seconds) {
            this.ops = ops;
            left = ops > 0 ? new AtomicLong(ops) : null;
            deadline = System.nanoTime() + (long) (seconds * 1e9);
        }

        /** Returns the limit of one of several workers, which all do the same number of operations. */
        Limit share(int workers) {
            return left == null ? this : new Limit(Math.max(1, ops / workers), 0);
        }

        boolean next() {
            return left != null ? left.decrementAndGet() >= 0 : System.nanoTime() < deadline;
        }
    }

    /** Latencies of one thread, in ns. */
    static class Samples {
        long[] all = new long[1024];
        int n;

        void add(long ns) {
            if (n == all.length) {
                all = Arrays.copyOf(all, 2 * n);
            }
            all[n++] = ns;
        }
    }

    static final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    static final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    static final OperatingSystemMXBean process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    static final int QUANTILES = 1000;

    static synchronized void say(String line) {
        out.print(line + "\n");
        out.flush();
    }

    static void await(String line) throws Exception {
        say(line);
        String answer = in.readLine();
        if (!"go".equals(answer)) {
            throw new IllegalStateException(answer + " is no answer to " + line);
        }
    }

    /** Runs all parts at once, each on a thread of its own, and throws the first exception. */
    static void each(int n, Part part) throws Exception {
        AtomicReference<Exception> first = new AtomicReference<>();
        Thread[] threads = new Thread[n];
        for (int i = 0; i < n; i++) {
            int number = i;
            threads[i] = new Thread(() -> {
                try {
                    part.run(number);
                } catch (Exception e) {
                    first.compareAndSet(null, e);
                }
            });
            threads[i].setDaemon(true);
            threads[i].start();
        }
        for (Thread t : threads) {
            t.join();
        }
        if (first.get() != null) {
            throw first.get();
        }
    }

    static byte[] payload() {
        return new byte[100];
    }

    /** One execution of a program. */
    static class Run {
        final Map<String, String> params = new HashMap<>();
        final List<CuratorFramework> clients = new ArrayList<>();
        final List<Samples> samples = new ArrayList<>();
        final String path;
        long ops;
        long elapsed;
        long cpu;
        String extras = "";
        double resident;
        int scale = 1;

        Run(String[] words) {
            for (int i = 2; i < words.length; i++) {
                int at = words[i].indexOf('=');
                params.put(words[i].substring(0, at), words[i].substring(at + 1));
            }
            path = params.get("path");
        }

        int number(String name, int fallback) {
            String value = params.get(name);
            return value == null ? fallback : Integer.parseInt(value);
        }

        boolean is(String name, String value) {
            return value.equals(params.get(name));
        }

        Limit limit(String prefix) {
            return new Limit(number(prefix + "ops", 0), Double.parseDouble(params.getOrDefault(prefix + "seconds", "1")));
        }

        void open(int n) throws Exception {
            CuratorFramework[] all = new CuratorFramework[n];
            each(n, i -> {
                all[i] = CuratorFrameworkFactory.newClient(
                        params.get("servers"), number("timeout_ms", 20000), 15000, new ExponentialBackoffRetry(100, 5));
                all[i].start();
                if (!all[i].blockUntilConnected(15, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("not connected");
                }
            });
            clients.addAll(Arrays.asList(all));
        }

        void close() throws Exception {
            each(clients.size(), i -> clients.get(i).close());
        }

        void measure(Measured measured) throws Exception {
            samples.clear();
            await("begin");
            long cpuBefore = process.getProcessCpuTime();
            long began = System.nanoTime();
            ops = measured.run(limit("")) * scale;
            elapsed = System.nanoTime() - began;
            cpu = process.getProcessCpuTime() - cpuBefore;
            await("end");
        }

        long phase(Limit limit, int workers, Op op) throws Exception {
            Samples[] each = new Samples[workers];
            Curator.each(workers, w -> {
                Samples mine = new Samples();
                each[w] = mine;
                Limit share = limit.share(workers);
                for (int turn = 0; share.next(); turn++) {
                    long began = System.nanoTime();
                    op.run(w, turn);
                    mine.add(System.nanoTime() - began);
                }
            });
            samples.clear();
            samples.addAll(Arrays.asList(each));
            return samples.stream().mapToLong(s -> s.n).sum();
        }

        void loop(int workers, Op op) throws Exception {
            phase(limit("warm_"), workers, op);
            measure(limit -> phase(limit, workers, op));
        }

        void report() {
            long[] all = new long[(int) samples.stream().mapToLong(s -> s.n).sum()];
            int n = 0;
            for (Samples s : samples) {
                System.arraycopy(s.all, 0, all, n, s.n);
                n += s.n;
            }
            Arrays.sort(all);
            if (n > 0) {
                StringBuilder line = new StringBuilder("latencies");
                int parts = Math.min(QUANTILES, n - 1);
                for (int i = 0; i <= parts; i++) {
                    int at = parts == 0 ? 0 : (int) ((long) i * (n - 1) / parts);
                    line.append(String.format(Locale.ROOT, " %.1f", all[at] / 1e3));
                }
                say(line.toString());
            }
            say(String.format(Locale.ROOT, "result ops=%d seconds=%.6f cpu_us=%d", ops, elapsed / 1e9, cpu / 1000) + extras);
        }

        void lock() throws Exception {
            int sessions = number("sessions", 1);
            int locks = number("locks", 1);
            open(sessions);
            InterProcessMutex[] all = new InterProcessMutex[sessions * locks];
            for (int i = 0; i < all.length; i++) {
                all[i] = new InterProcessMutex(clients.get(i % sessions), path + "/" + (is("shared", "1") ? "one" : i));
            }
            loop(all.length, (w, turn) -> {
                all[w].acquire();
                all[w].release();
            });
        }

        /**
         * Three locks at once, as the driver of this library chooses. They are named in one order by all:
         * otherwise two wait for each other for ever.
         */
        void several() throws Exception {
            open(number("sessions", 1));
            int locks = number("among", 20);
            InterProcessMultiLock[][] all = new InterProcessMultiLock[clients.size()][locks];
            for (int i = 0; i < all.length; i++) {
                for (int first = 0; first < locks; first++) {
                    int[] three = {first, (first + 5) % locks, (first + 10) % locks};
                    Arrays.sort(three);
                    List<String> paths = new ArrayList<>();
                    for (int at : three) {
                        paths.add(path + "/" + at);
                    }
                    all[i][first] = new InterProcessMultiLock(clients.get(i), paths);
                }
            }
            loop(all.length, (w, turn) -> {
                InterProcessMultiLock lock = all[w][(7 * w + 3 * turn) % locks];
                lock.acquire();
                lock.release();
            });
        }

        void readWrite() throws Exception {
            open(number("sessions", 1));
            InterProcessReadWriteLock[] all = new InterProcessReadWriteLock[clients.size()];
            for (int i = 0; i < all.length; i++) {
                all[i] = new InterProcessReadWriteLock(clients.get(i), path);
            }
            loop(all.length, (w, turn) -> {
                InterProcessMutex mutex = (w + turn) % 10 == 0 ? all[w].writeLock() : all[w].readLock();
                mutex.acquire();
                mutex.release();
            });
        }

        void semaphore() throws Exception {
            open(number("sessions", 1));
            InterProcessSemaphoreV2[] all = new InterProcessSemaphoreV2[number("contenders", 1)];
            for (int i = 0; i < all.length; i++) {
                all[i] = new InterProcessSemaphoreV2(clients.get(i % clients.size()), path, number("leases", 1));
            }
            loop(all.length, (w, turn) -> {
                Lease lease = all[w].acquire();
                all[w].returnLease(lease);
            });
        }

        void succession() throws Exception {
            open(number("candidates", 2));
            int n = clients.size();
            BlockingQueue<Integer> elected = new ArrayBlockingQueue<>(n);
            LeaderLatch[] all = new LeaderLatch[n];
            for (int i = 0; i < n; i++) {
                all[i] = candidate(i, elected);
            }
            int[] leader = {elected.take()};
            int rest = number("rest_ms", 0);
            // The time until the next leader knows counts. The time until the old one stands again does not.
            Measured phase = limit -> {
                Samples mine = new Samples();
                while (limit.next()) {
                    int old = leader[0];
                    long began = System.nanoTime();
                    all[old].close();
                    leader[0] = elected.take();
                    mine.add(System.nanoTime() - began);
                    all[old] = candidate(old, elected);
                    Thread.sleep(rest);
                }
                samples.clear();
                samples.add(mine);
                return mine.n;
            };
            phase.run(limit("warm_"));
            measure(phase);
            each(n, i -> all[i].close());
        }

        LeaderLatch candidate(int i, BlockingQueue<Integer> elected) throws Exception {
            LeaderLatch latch = new LeaderLatch(clients.get(i), path, "candidate-" + i);
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    elected.add(i);
                }

                @Override
                public void notLeader() {}
            });
            latch.start();
            return latch;
        }

        void stand() throws Exception {
            open(1);
            BlockingQueue<Integer> elected = new ArrayBlockingQueue<>(1);
            LeaderLatch latch = candidate(0, elected);
            while (latch.getOurPath() == null) {
                Thread.onSpinWait();
            }
            await("ask standing");
            elected.take();
            await("ask elected");
        }

        void barrier() throws Exception {
            int parties = number("parties", 2);
            open(parties);
            DistributedDoubleBarrier[] all = new DistributedDoubleBarrier[parties];
            for (int i = 0; i < parties; i++) {
                all[i] = new DistributedDoubleBarrier(clients.get(i), path, parties);
            }
            long[] done = {0};
            int[] phases = {0};
            Measured rounds = limit -> {
                String phase = path + "/" + phases[0]++ + "-";
                Samples mine = new Samples();
                AtomicLong last = new AtomicLong(Long.MAX_VALUE);
                each(parties, p -> {
                    for (long i = 0; i < last.get(); i++) {
                        if (p == 0 && !limit.next()) {
                            last.set(i + 1);
                        }
                        if (is("paths", "each")) {
                            all[p] = new DistributedDoubleBarrier(clients.get(p), phase + i, parties);
                        }
                        long began = System.nanoTime();
                        all[p].enter();
                        all[p].leave();
                        if (p == 0) {
                            mine.add(System.nanoTime() - began);
                            done[0] += 2L * parties;
                            say("progress " + done[0]);
                        }
                    }
                });
                samples.clear();
                samples.add(mine);
                return 2L * parties * mine.n;
            };
            rounds.run(limit("warm_"));
            measure(rounds);
        }

        void put() throws Exception {
            open(1);
            SimpleDistributedQueue queue = new SimpleDistributedQueue(clients.get(0), path);
            byte[] item = payload();
            loop(number("producers", 1), (w, turn) -> queue.offer(item));
        }

        /** Puts items in transactions, which SimpleDistributedQueue cannot do. */
        void fill(String at, int items) throws Exception {
            CuratorFramework client = clients.get(0);
            client.create().creatingParentsIfNeeded().forPath(at);
            for (int i = 0; i < items; i += 500) {
                List<CuratorOp> batch = new ArrayList<>();
                for (int j = i; j < Math.min(i + 500, items); j++) {
                    batch.add(client.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(at + "/qn-", payload()));
                }
                client.transaction().forOperations(batch);
            }
        }

        void drain() throws Exception {
            open(1);
            int items = number("items", 1);
            fill(path + "/warm", Math.min(items, 200));
            take(path + "/warm", Math.min(items, 200), 10);
            fill(path + "/it", items);
            measure(limit -> take(path + "/it", items, number("cap_seconds", 60)));
        }

        /** Takes items with one taker, since several would race each other for the same items. */
        long take(String at, int items, int seconds) throws Exception {
            SimpleDistributedQueue queue = new SimpleDistributedQueue(clients.get(0), at);
            long deadline = System.nanoTime() + seconds * 1_000_000_000L;
            long taken = 0;
            while (taken < items && System.nanoTime() < deadline) {
                if (queue.poll() == null) {
                    throw new IllegalStateException("empty after " + taken);
                }
                taken++;
                if (taken % 100 == 0) {
                    say("progress " + taken);
                }
            }
            return taken;
        }

        /** Has items put and delivered at the same time. At least once they go through DistributedQueue, with its locks. */
        void flow() throws Exception {
            int takers = number("takers", 1);
            open(1 + takers);
            flow(limit("warm_"), path + "/warm", takers);
            measure(limit -> flow(limit, path + "/it", takers));
        }

        long flow(Limit limit, String at, int takers) throws Exception {
            Semaphore flight = new Semaphore(number("flight", 64));
            Samples mine = new Samples();
            samples.clear();
            samples.add(mine);
            Deliver deliver = data -> {
                long took = System.nanoTime() - ByteBuffer.wrap(data).getLong();
                synchronized (mine) {
                    mine.add(took);
                    if (mine.n % 100 == 0) {
                        say("progress " + mine.n);
                    }
                }
                flight.release();
            };
            List<Closeable> ends = new ArrayList<>();
            Deliver put = is("kind", "acknowledged") ? acknowledged(at, takers, deliver, ends) : taken(at, takers, deliver, ends);
            each(number("producers", 1), w -> {
                while (limit.next()) {
                    flight.acquire();
                    put.run(ByteBuffer.allocate(100).putLong(System.nanoTime()).array());
                }
            });
            flight.acquire(number("flight", 64)); // the last has been delivered
            for (Closeable end : ends) {
                end.close();
            }
            return mine.n;
        }

        /** Consumers of DistributedQueue, which delete an item's node and its lock when the item was consumed. */
        Deliver acknowledged(String at, int takers, Deliver deliver, List<Closeable> ends) throws Exception {
            List<DistributedQueue<byte[]>> queues = new ArrayList<>();
            for (int i = 0; i <= takers; i++) {
                QueueConsumer<byte[]> consumer = i == 0 ? null : new QueueConsumer<byte[]>() {
                    @Override
                    public void consumeMessage(byte[] data) throws Exception {
                        deliver.run(data);
                    }

                    @Override
                    public void stateChanged(CuratorFramework client, ConnectionState state) {}
                };
                DistributedQueue<byte[]> queue =
                        QueueBuilder.builder(clients.get(i), consumer, new Bytes(), at).lockPath(at + "-locks").buildQueue();
                queue.start();
                queues.add(queue);
                ends.add(queue);
            }
            return queues.get(0)::put;
        }

        /** Takers of SimpleDistributedQueue. */
        Deliver taken(String at, int takers, Deliver deliver, List<Closeable> ends) throws Exception {
            SimpleDistributedQueue producers = new SimpleDistributedQueue(clients.get(0), at);
            AtomicBoolean over = new AtomicBoolean();
            List<Thread> threads = new ArrayList<>();
            for (int i = 1; i <= takers; i++) {
                SimpleDistributedQueue queue = new SimpleDistributedQueue(clients.get(i), at);
                Thread t = new Thread(() -> {
                    try {
                        while (!over.get()) {
                            byte[] data = queue.poll(200, TimeUnit.MILLISECONDS);
                            if (data != null) {
                                deliver.run(data);
                            }
                        }
                    } catch (Exception e) {
                        say("failed " + e);
                        System.exit(1);
                    }
                });
                t.start();
                threads.add(t);
            }
            ends.add(() -> {
                over.set(true);
                for (Thread t : threads) {
                    try {
                        t.join();
                    } catch (InterruptedException e) {
                        throw new IOException(e);
                    }
                }
            });
            return producers::offer;
        }

        void join() throws Exception {
            open(number("sessions", 1) + 1);
            GroupMember[] members = new GroupMember[number("members", 1)];
            shot(path + "/warm", members);
            each(members.length, i -> members[i].close());
            Samples mine = new Samples();
            measure(limit -> {
                mine.add(shot(path + "/it", members));
                return members.length;
            });
            samples.add(mine);
            each(members.length, i -> members[i].close());
        }

        /** Waits until another session knows of all members, and returns how long that took. */
        long shot(String at, GroupMember[] members) throws Exception {
            CountDownLatch told = new CountDownLatch(members.length);
            CuratorCache watcher = CuratorCache.build(clients.get(0), at);
            watcher.listenable().addListener(CuratorCacheListener.builder().forCreates(node -> {
                if (!node.getPath().equals(at)) {
                    told.countDown();
                }
            }).build());
            watcher.start();
            long began = System.nanoTime();
            for (int i = 0; i < members.length; i++) {
                members[i] = new GroupMember(clients.get(1 + i % (clients.size() - 1)), at, "member-" + i);
                members[i].start();
            }
            told.await();
            long took = System.nanoTime() - began;
            watcher.close();
            return took;
        }

        void fanout() throws Exception {
            open(number("sessions", 1) + 1);
            int n = number("watchers", 1);
            CuratorFramework writer = clients.get(0);
            writer.create().creatingParentsIfNeeded().forPath(path, "first".getBytes(StandardCharsets.UTF_8));
            BlockingQueue<Object[]> told = new ArrayBlockingQueue<>(4 * n);
            CuratorCache[] caches = new CuratorCache[n];
            for (int i = 0; i < n; i++) {
                caches[i] = CuratorCache.build(clients.get(1 + i % (clients.size() - 1)), path, CuratorCache.Options.SINGLE_NODE_CACHE);
                caches[i].listenable().addListener(CuratorCacheListener.builder().forCreatesAndChanges((old, node) -> {
                    told.add(new Object[] {new String(node.getData(), StandardCharsets.UTF_8), System.nanoTime()});
                }).build());
                caches[i].start();
            }
            awaitAll(told, "first", n, 0, new Samples());
            int[] value = {0};
            Measured phase = limit -> {
                Samples mine = new Samples();
                while (limit.next()) {
                    String next = Integer.toString(++value[0]);
                    long began = System.nanoTime();
                    writer.setData().inBackground().forPath(path, next.getBytes(StandardCharsets.UTF_8));
                    awaitAll(told, next, n, began, mine);
                }
                samples.clear();
                samples.add(mine);
                return mine.n;
            };
            phase.run(limit("warm_"));
            measure(phase);
            each(n, i -> caches[i].close());
        }

        interface Use<T> {
            void run(T thing) throws Exception;
        }

        /** Returns the leaves of a tree that the bench has created. */
        static List<String> leaves(String tree, int nodes) {
            List<String> leaves = new ArrayList<>();
            for (int d = 0; d < (nodes + 99) / 100; d++) {
                for (int n = 0; n < 99; n++) {
                    leaves.add(tree + String.format("/d%04d/n%02d", d, n));
                }
            }
            return leaves;
        }

        /** Gives use a client that has seen no tree. Its server has the tree. */
        void fresh(String tree, Use<CuratorFramework> use) throws Exception {
            open(1);
            CuratorFramework client = clients.remove(clients.size() - 1);
            client.sync().forPath(tree); // its server may lag
            use.run(client);
            client.close();
        }

        /** Returns the cache of a tree when it is complete. The listener may be null; it gets the data of nodes that change. */
        Closeable follow(CuratorFramework client, String tree, int leaves, Consumer<byte[]> listener) throws Exception {
            CountDownLatch complete = new CountDownLatch(1);
            AtomicLong nodes = new AtomicLong();
            Closeable cache;
            if (is("cache", "TreeCache")) {
                TreeCache old = new TreeCache(client, tree);
                old.getListenable().addListener((from, event) -> {
                    switch (event.getType()) {
                        case NODE_ADDED:
                            nodes.incrementAndGet();
                            return;
                        case INITIALIZED:
                            complete.countDown();
                            return;
                        case NODE_UPDATED:
                            if (listener != null) {
                                listener.accept(event.getData().getData());
                            }
                            return;
                        default:
                    }
                });
                old.start();
                complete.await();
                cache = old;
            } else {
                CuratorCache all = CuratorCache.build(client, tree);
                all.listenable().addListener(CuratorCacheListener.builder().forInitialized(complete::countDown).build());
                if (listener != null) {
                    all.listenable().addListener(CuratorCacheListener.builder().afterInitialized().forChanges((old, node) -> {
                        listener.accept(node.getData());
                    }).build());
                }
                all.start();
                complete.await();
                nodes.set(all.size());
                cache = all;
            }
            if (nodes.get() != 1 + leaves / 99 * 100) {
                throw new IllegalStateException(nodes + " nodes with " + leaves + " leaves");
            }
            return cache;
        }

        void tree() throws Exception {
            int warm = leaves(path + "/warm", number("warm_nodes", 1)).size();
            int leaves = leaves(path + "/it", number("nodes", 1)).size();
            for (Limit limit = limit("warm_"); limit.next(); ) {
                fresh(path + "/warm", client -> follow(client, path + "/warm", warm, null).close());
            }
            fresh(path + "/it", client -> {
                memory(false);
                Samples mine = new Samples();
                List<Closeable> cache = new ArrayList<>();
                measure(limit -> {
                    long began = System.nanoTime();
                    cache.add(follow(client, path + "/it", leaves, null));
                    mine.add(System.nanoTime() - began);
                    return 1;
                });
                samples.add(mine);
                memory(true);
                cache.get(0).close();
            });
        }

        void treeChange() throws Exception {
            changes(path + "/warm", number("warm_nodes", 1), phase -> phase.run(limit("warm_")));
            changes(path + "/it", number("nodes", 1), phase -> {
                memory(false);
                measure(phase);
                memory(true);
            });
        }

        /** Gives use a phase that changes nodes of the tree, each after its follower has seen the change before. */
        void changes(String tree, int nodes, Use<Measured> use) throws Exception {
            open(1);
            CuratorFramework writer = clients.get(clients.size() - 1);
            List<String> leaves = leaves(tree, nodes);
            BlockingQueue<String> told = new LinkedBlockingQueue<>();
            fresh(tree, client -> {
                Closeable cache = follow(client, tree, leaves.size(), data -> told.add(new String(data, StandardCharsets.UTF_8)));
                int[] turn = {0};
                use.run(limit -> {
                    Samples mine = new Samples();
                    while (limit.next()) {
                        int n = turn[0]++;
                        String value = Integer.toString(n);
                        long began = System.nanoTime();
                        writer.setData().inBackground().forPath(leaves.get((int) ((long) n * 37 % leaves.size())), value.getBytes(StandardCharsets.UTF_8));
                        while (!told.take().equals(value)) {
                            continue;
                        }
                        mine.add(System.nanoTime() - began);
                    }
                    samples.clear();
                    samples.add(mine);
                    return mine.n;
                });
                cache.close();
            });
        }

        /** Adds the resident memory of this process to the result: what it has before the measured part, or its peak. */
        void memory(boolean peak) throws IOException {
            for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
                if (line.startsWith(peak ? "VmHWM:" : "VmRSS:")) {
                    double megabytes = Double.parseDouble(line.replaceAll("[^0-9]", "")) / 1024;
                    resident = Math.max(resident, megabytes); // the kernel notes a peak late
                    extras += String.format(Locale.ROOT, " MB_resident_%s=%.1f", peak ? "peak" : "before", resident);
                }
            }
        }

        static void awaitAll(BlockingQueue<Object[]> told, String value, int n, long began, Samples into) throws Exception {
            for (int seen = 0; seen < n; ) {
                Object[] next = told.take();
                if (next[0].equals(value)) {
                    into.add((long) next[1] - began);
                    seen++;
                }
            }
        }

        void run(String program) throws Exception {
            switch (program) {
                case "lock":
                    lock();
                    return;
                case "several":
                    several();
                    return;
                case "readwrite":
                    readWrite();
                    return;
                case "semaphore":
                    semaphore();
                    return;
                case "succession":
                    succession();
                    return;
                case "stand":
                    stand();
                    return;
                case "barrier":
                    barrier();
                    return;
                case "put":
                    put();
                    return;
                case "flow":
                    flow();
                    break;
                case "drain":
                    drain();
                    return;
                case "join":
                    join();
                    return;
                case "fanout":
                    fanout();
                    return;
                case "tree":
                    tree();
                    return;
                case "tree-change":
                    treeChange();
                    return;
                default:
                    throw new IllegalArgumentException("there is no program " + program);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            Run run = new Run(words);
            try {
                run.run(words[1]);
                run.close();
                run.report();
            } catch (Exception e) {
                run.close();
                say("failed " + e.toString().replace('\n', ' '));
            }
        }
        Runtime.getRuntime().halt(0); // do not wait for threads that still wait
    }
}
