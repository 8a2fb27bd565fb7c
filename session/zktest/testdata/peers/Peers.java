import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's own lock, election and double barrier, on the server at args[0]. */
public class Peers {
    static final int PARTIES = 3;
    static final int ROUNDS = 5;

    interface What {
        void run(CuratorFramework client, int number) throws Exception;
    }

    static void together(List<CuratorFramework> clients, What what) throws Exception {
        ExecutorService pool = Executors.newCachedThreadPool();
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < clients.size(); i++) {
            int number = i;
            all.add(pool.submit(() -> {
                what.run(clients.get(number), number);
                return null;
            }));
        }
        for (Future<?> f : all) {
            f.get(60, TimeUnit.SECONDS);
        }
        pool.shutdown();
    }

    static void check(boolean ok, String what) {
        if (!ok) {
            throw new IllegalStateException(what);
        }
    }

    public static void main(String[] args) throws Exception {
        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < PARTIES; i++) {
            CuratorFramework c = CuratorFrameworkFactory.newClient(
                args[0], 10000, 10000, new ExponentialBackoffRetry(100, 3));
            c.start();
            clients.add(c);
        }

        AtomicInteger inside = new AtomicInteger();
        AtomicInteger held = new AtomicInteger();
        together(clients, (client, number) -> {
            InterProcessMutex mutex = new InterProcessMutex(client, "/curator/lock");
            for (int i = 0; i < ROUNDS; i++) {
                check(mutex.acquire(60, TimeUnit.SECONDS), "not acquired");
                check(inside.incrementAndGet() == 1, "two of them hold the lock");
                held.incrementAndGet();
                client.getChildren().forPath("/curator");
                inside.decrementAndGet();
                mutex.release();
            }
        });
        check(held.get() == PARTIES * ROUNDS, "held " + held);
        System.out.println("lock");

        AtomicInteger leaders = new AtomicInteger();
        AtomicInteger elected = new AtomicInteger();
        together(clients, (client, number) -> {
            try (LeaderLatch latch = new LeaderLatch(client, "/curator/election", "party " + number)) {
                latch.start();
                check(latch.await(60, TimeUnit.SECONDS), "not elected");
                check(leaders.incrementAndGet() == 1, "two of them lead");
                elected.incrementAndGet();
                leaders.decrementAndGet();
            }
        });
        check(elected.get() == PARTIES, "elected " + elected);
        System.out.println("election");

        AtomicInteger entered = new AtomicInteger();
        together(clients, (client, number) -> {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, "/curator/barrier", PARTIES);
            entered.incrementAndGet();
            check(barrier.enter(60, TimeUnit.SECONDS), "not entered");
            check(entered.get() == PARTIES, "entered alone");
            check(barrier.leave(60, TimeUnit.SECONDS), "not left");
        });
        System.out.println("barrier");

        for (CuratorFramework c : clients) {
            c.close();
        }
        System.exit(0);
    }
}
