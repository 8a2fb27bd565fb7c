import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.RetryPolicy;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.data.Stat;

/** Runs Curator's recipes by commands on standard input. The protocol is in protocol.go. */
public class Curator {
    static final Map<String, Claim> claims = new ConcurrentHashMap<>();
    static CuratorFramework client; // for the command that is being executed

    static synchronized void say(String... words) {
        System.out.println(String.join(" ", words).replace('\n', ' '));
        System.out.flush();
    }

    static void failed(String id, Throwable e) {
        e.printStackTrace();
        say("failed", id, e.toString());
    }

    /** One recipe. One thread calls all its methods, as mutexes require. */
    interface Recipe {
        /** Returns false if it has not acquired within millis; 0 is no limit. */
        boolean acquire(long millis) throws Exception;

        String node() throws Exception;

        /** Executes a command of the holder. */
        default String act(String[] words) throws Exception {
            throw new IllegalArgumentException("unknown command " + Arrays.toString(words));
        }

        void release() throws Exception;
    }

    static class Mutex implements Recipe {
        final InterProcessMutex mutex;

        Mutex(InterProcessMutex mutex) {
            this.mutex = mutex;
        }

        static Mutex revocable(String path, String id) {
            InterProcessMutex mutex = new InterProcessMutex(client, path);
            mutex.makeRevocable(m -> say("revoked", id));
            return new Mutex(mutex);
        }

        @Override
        public boolean acquire(long millis) throws Exception {
            if (millis > 0) {
                return mutex.acquire(millis, TimeUnit.MILLISECONDS);
            }
            mutex.acquire();
            return true;
        }

        @Override
        public String node() throws Exception {
            Method path = InterProcessMutex.class.getDeclaredMethod("getLockPath");
            path.setAccessible(true);
            return (String) path.invoke(mutex);
        }

        @Override
        public void release() throws Exception {
            mutex.release();
        }
    }

    /** A writer that has become a reader. */
    static class Downgraded implements Recipe {
        final InterProcessReadWriteLock lock;

        Downgraded(String path) {
            lock = new InterProcessReadWriteLock(client, path);
        }

        @Override
        public boolean acquire(long millis) throws Exception {
            if (!new Mutex(lock.writeLock()).acquire(millis)) {
                return false;
            }
            try {
                lock.readLock().acquire();
            } finally {
                lock.writeLock().release();
            }
            return true;
        }

        @Override
        public String node() throws Exception {
            return new Mutex(lock.readLock()).node();
        }

        @Override
        public void release() throws Exception {
            lock.readLock().release();
        }
    }

    static class Latch implements Recipe {
        final LeaderLatch latch;

        Latch(String path, String id) {
            latch = new LeaderLatch(client, path, id);
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {}

                @Override
                public void notLeader() {
                    say("lost", id);
                }
            });
        }

        @Override
        public boolean acquire(long millis) throws Exception {
            latch.start();
            try {
                if (millis <= 0) {
                    latch.await();
                    return true;
                }
                if (latch.await(millis, TimeUnit.MILLISECONDS)) {
                    return true;
                }
            } catch (InterruptedException e) {
                latch.close();
                throw e;
            }
            latch.close();
            return false;
        }

        @Override
        public String node() {
            return latch.getOurPath();
        }

        @Override
        public void release() throws Exception {
            latch.close();
        }
    }

    static class Selector implements Recipe {
        final CountDownLatch leads = new CountDownLatch(1);
        final CountDownLatch enough = new CountDownLatch(1);
        final ExecutorService executor = Executors.newSingleThreadExecutor();
        final LeaderSelector selector;

        Selector(String path, String id) {
            selector = new LeaderSelector(client, path, executor, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) {
                    leads.countDown();
                    try {
                        enough.await();
                    } catch (InterruptedException e) {
                        say("lost", id);
                    }
                }
            });
            selector.setId(id);
        }

        @Override
        public boolean acquire(long millis) throws Exception {
            selector.start();
            try {
                if (millis <= 0) {
                    leads.await();
                    return true;
                }
                if (leads.await(millis, TimeUnit.MILLISECONDS)) {
                    return true;
                }
            } catch (InterruptedException e) {
                leave();
                throw e;
            }
            leave();
            return false;
        }

        @Override
        public String node() {
            return "-"; // LeaderSelector does not reveal it
        }

        /** Returns when the node is gone: the thread that leads deletes it at its end. */
        @Override
        public void release() throws Exception {
            enough.countDown();
            executor.shutdown();
            executor.awaitTermination(1, TimeUnit.MINUTES);
            selector.close();
        }

        void leave() throws Exception {
            enough.countDown(); // in case it is elected at this moment
            selector.close();
            executor.shutdown();
            executor.awaitTermination(1, TimeUnit.MINUTES);
        }
    }

    static class Semaphore implements Recipe {
        final InterProcessSemaphoreV2 semaphore;
        final String path;
        Lease lease;

        Semaphore(String path, int limit) {
            this.semaphore = new InterProcessSemaphoreV2(client, path, limit);
            this.path = path;
        }

        @Override
        public boolean acquire(long millis) throws Exception {
            lease = millis > 0 ? semaphore.acquire(millis, TimeUnit.MILLISECONDS) : semaphore.acquire();
            return lease != null;
        }

        @Override
        public String node() throws Exception {
            return path + "/leases/" + lease.getNodeName();
        }

        @Override
        public void release() {
            semaphore.returnLease(lease);
        }
    }

    /** A wait at a barrier. */
    static class Wait implements Recipe {
        final DistributedBarrier barrier;
        final String path;

        Wait(String path) {
            this.barrier = new DistributedBarrier(client, path);
            this.path = path;
        }

        @Override
        public boolean acquire(long millis) throws Exception {
            if (millis > 0) {
                return barrier.waitOnBarrier(millis, TimeUnit.MILLISECONDS);
            }
            barrier.waitOnBarrier();
            return true;
        }

        @Override
        public String node() {
            return path;
        }

        @Override
        public void release() {}
    }

    /** A round of a double barrier. */
    static class Round implements Recipe {
        final DistributedDoubleBarrier barrier;

        Round(String path, int parties) {
            this.barrier = new DistributedDoubleBarrier(client, path, parties);
        }

        @Override
        public boolean acquire(long millis) throws Exception {
            if (millis > 0) {
                return barrier.enter(millis, TimeUnit.MILLISECONDS);
            }
            barrier.enter();
            return true;
        }

        @Override
        public String node() {
            return "-"; // DistributedDoubleBarrier does not reveal it
        }

        @Override
        public void release() throws Exception {
            barrier.leave();
        }
    }

    /** What its user holds at once. */
    abstract static class AtOnce implements Recipe {
        final String path;

        AtOnce(String path) {
            this.path = path;
        }

        @Override
        public boolean acquire(long millis) {
            return true;
        }

        @Override
        public String node() {
            return path;
        }

        @Override
        public void release() throws Exception {}
    }

    static class Items extends AtOnce {
        static final String EMPTY = "\"\""; // an item without data

        final SimpleDistributedQueue queue;

        Items(String path) {
            super(path);
            this.queue = new SimpleDistributedQueue(client, path);
        }

        @Override
        public String act(String[] words) throws Exception {
            switch (words[0]) {
                case "put":
                    queue.offer(words[2].equals(EMPTY) ? new byte[0] : words[2].getBytes(StandardCharsets.UTF_8));
                    return "";
                case "take":
                    long millis = Long.parseLong(words[2]);
                    byte[] data = millis > 0 ? queue.poll(millis, TimeUnit.MILLISECONDS) : queue.poll();
                    return data == null ? "" : data.length == 0 ? EMPTY : new String(data, StandardCharsets.UTF_8);
                default:
                    return super.act(words);
            }
        }
    }

    /** A member of a group, with its name as payload. */
    static class Member extends AtOnce {
        final GroupMember member;

        Member(String path, String id) {
            super(path);
            this.member = new GroupMember(client, path, id, id.getBytes(StandardCharsets.UTF_8));
        }

        @Override
        public boolean acquire(long millis) {
            member.start();
            return true;
        }

        @Override
        public void release() {
            member.close();
        }
    }

    /** Adds to a counter, and returns its value. */
    interface Adder {
        long add(int n) throws Exception;
    }

    /** Returns the value after a change by Curator's counters, which give up after so many tries. */
    static <T extends Number> long changed(AtomicValue<T> value) {
        if (!value.succeeded()) {
            throw new IllegalStateException("not changed");
        }
        return value.postValue().longValue();
    }

    static class Counter extends AtOnce {
        final Adder adder;
        final AutoCloseable end;

        Counter(String path, Adder adder, AutoCloseable end) {
            super(path);
            this.adder = adder;
            this.end = end;
        }

        static Counter of(String kind, String path) throws Exception {
            RetryPolicy retries = new RetryNTimes(10000, 1);
            if (kind.equals("long")) {
                DistributedAtomicLong counter = new DistributedAtomicLong(client, path, retries);
                return new Counter(path, n -> changed(counter.add((long) n)), () -> {});
            }
            if (kind.equals("integer")) {
                DistributedAtomicInteger counter = new DistributedAtomicInteger(client, path, retries);
                return new Counter(path, n -> changed(counter.add(n)), () -> {});
            }
            SharedCount counter = new SharedCount(client, path, 0);
            counter.start();
            return new Counter(path, n -> {
                while (true) {
                    VersionedValue<Integer> value = counter.getVersionedValue();
                    if (counter.trySetCount(value, value.getValue() + n)) {
                        return value.getValue() + n;
                    }
                }
            }, counter);
        }

        @Override
        public String act(String[] words) throws Exception {
            return words[0].equals("add") ? Long.toString(adder.add(Integer.parseInt(words[2]))) : super.act(words);
        }

        @Override
        public void release() throws Exception {
            end.close();
        }
    }

    static Recipe recipe(String kinds, String path, String id) throws Exception {
        String[] words = kinds.split("=");
        String kind = words[0];
        int number = words.length > 1 ? Integer.parseInt(words[1]) : 1;
        switch (kind) {
            case "semaphore":
                return new Semaphore(path, number);
            case "barrier":
                return new Wait(path);
            case "double":
                return new Round(path, number);
            case "queue":
                return new Items(path);
            case "member":
                return new Member(path, id);
            case "long":
            case "integer":
            case "shared":
                return Counter.of(kind, path);
            case "mutex":
                return new Mutex(new InterProcessMutex(client, path));
            case "revocable":
                return Mutex.revocable(path, id);
            case "read":
                return new Mutex(new InterProcessReadWriteLock(client, path).readLock());
            case "write":
                return new Mutex(new InterProcessReadWriteLock(client, path).writeLock());
            case "downgraded":
                return new Downgraded(path);
            case "latch":
                return new Latch(path, id);
            case "selector":
                return new Selector(path, id);
            default:
                throw new IllegalArgumentException("unknown kind " + kind);
        }
    }

    /** A recipe, and the thread that uses it. */
    static class Claim extends Thread {
        final CuratorFramework client = Curator.client;
        final String id;
        final Recipe recipe;
        final long millis;
        final LinkedBlockingQueue<String[]> orders = new LinkedBlockingQueue<>();
        boolean waits = true;
        volatile boolean holds;

        Claim(String id, Recipe recipe, long millis) {
            super("claim " + id);
            this.id = id;
            this.recipe = recipe;
            this.millis = millis;
            setDaemon(true);
        }

        /** Passes a command to the holder. A claim that still waits gives up instead. */
        synchronized void order(String[] words) {
            orders.add(words);
            if (waits) {
                interrupt();
            }
        }

        synchronized void waitsNoMore() {
            waits = false;
            interrupted();
        }

        @Override
        public void run() {
            try {
                boolean acquired;
                try {
                    acquired = recipe.acquire(millis);
                } catch (Exception e) {
                    waitsNoMore();
                    if (orders.isEmpty()) {
                        throw e;
                    }
                    say("released", id);
                    return;
                }
                waitsNoMore();
                if (!acquired) {
                    say("timeout", id);
                    return;
                }
                holds = true;
                say("acquired", id, recipe.node());
                for (String[] words = orders.take(); !words[0].equals("release"); words = orders.take()) {
                    try {
                        say("did", id, words[0].equals("visit") ? visit(words[2]) : recipe.act(words));
                    } catch (Exception e) {
                        say("refused", id, e.toString());
                    }
                }
                holds = false;
                recipe.release();
                say("released", id);
            } catch (Exception e) {
                failed(id, e);
            } finally {
                claims.remove(id);
            }
        }

        String visit(String path) throws Exception {
            Stat stat = new Stat();
            client.getData().storingStatIn(stat).forPath(path);
            stat = client.setData().withVersion(stat.getVersion()).forPath(path, id.getBytes(StandardCharsets.UTF_8));
            return Integer.toString(stat.getVersion());
        }
    }

    // The sync makes the line current: the client's server may lag behind the leader.
    static List<String> line(String kind, String path) throws Exception {
        client.sync().forPath(path);
        List<String> line = new ArrayList<>();
        switch (kind) {
            case "latch":
                for (Participant p : ((Latch) recipe(kind, path, "")).latch.getParticipants()) {
                    line.add(p.getId());
                }
                return line;
            case "selector":
                for (Participant p : ((Selector) recipe(kind, path, "")).selector.getParticipants()) {
                    line.add(p.getId());
                }
                return line;
            case "member":
                try (GroupMember looks = new GroupMember(client, path, "looks")) {
                    looks.start();
                    for (int left = 100; looks.getCurrentMembers().size() < 2 && left > 0; left--) {
                        Thread.sleep(20); // it knows itself at once, and the others later
                    }
                    for (Map.Entry<String, byte[]> e : looks.getCurrentMembers().entrySet()) {
                        if (!e.getKey().equals("looks")) {
                            line.add(e.getKey() + "=" + new String(e.getValue(), StandardCharsets.UTF_8));
                        }
                    }
                }
                return line;
            case "semaphore":
                line.addAll(((Semaphore) recipe(kind, path, "")).semaphore.getParticipantNodes());
                return line;
            default:
                line.addAll(((Mutex) recipe(kind, path, "")).mutex.getParticipantNodes());
                return line;
        }
    }

    static void obey(String[] words) {
        String id = words[1];
        try {
            switch (words[0]) {
                case "acquire":
                    Claim claim = new Claim(id, recipe(words[2], words[3], id), Long.parseLong(words[4]));
                    claims.put(id, claim);
                    claim.start();
                    return;
                case "visit":
                case "add":
                case "put":
                case "take":
                case "release":
                    Claim old = claims.get(id);
                    if (old != null) { // null: the claim has ended, and has reported that
                        old.order(words);
                    }
                    return;
                case "revoke":
                    Revoker.attemptRevoke(client, words[2]);
                    say("answer", id);
                    return;
                case "raise":
                    ((Wait) recipe(words[2], words[3], id)).barrier.setBarrier();
                    say("answer", id);
                    return;
                case "lift":
                    ((Wait) recipe(words[2], words[3], id)).barrier.removeBarrier();
                    say("answer", id);
                    return;
                case "line":
                    say("answer", id, String.join(" ", line(words[2], words[3])));
                    return;
                default:
                    throw new IllegalArgumentException("unknown command " + Arrays.toString(words));
            }
        } catch (Exception e) {
            failed(id, e);
        }
    }

    /** Returns a client, with a session of its own. */
    static CuratorFramework connect(String servers, int timeout) {
        CuratorFramework made = CuratorFrameworkFactory.newClient(servers, timeout, 15000, new ExponentialBackoffRetry(100, 5));
        made.getConnectionStateListenable().addListener((c, state) -> {
            if (state == ConnectionState.LOST) {
                for (Claim claim : claims.values()) {
                    if (claim.client == made && claim.holds) {
                        say("lost", claim.id);
                    }
                }
            }
        });
        made.start();
        return made;
    }

    /** Returns the version of Curator's archive on the class path. */
    static String version() throws IOException {
        Properties properties = new Properties();
        try (InputStream in = CuratorFramework.class.getResourceAsStream("/META-INF/maven/org.apache.curator/curator-framework/pom.properties")) {
            properties.load(in);
        }
        return properties.getProperty("version");
    }

    /** The arguments are the servers, the session timeout in milliseconds, and the number of sessions. */
    public static void main(String[] args) throws Exception {
        CuratorFramework[] clients = new CuratorFramework[Integer.parseInt(args[2])];
        for (int i = 0; i < clients.length; i++) {
            clients[i] = connect(args[0], Integer.parseInt(args[1]));
        }
        for (CuratorFramework c : clients) {
            if (!c.blockUntilConnected(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not connected");
            }
        }
        say("ready", version());
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] words = line.split(" ");
            client = clients[Integer.parseInt(words[1].substring(words[1].lastIndexOf('-') + 1)) % clients.length];
            obey(words);
        }
        for (CuratorFramework c : clients) {
            c.close();
        }
        Runtime.getRuntime().halt(0); // do not wait for threads that still wait
    }
}
