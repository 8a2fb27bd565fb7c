"""kazoo's own lock, election and double barrier, on the server at argv[1]."""

import logging
import sys
import threading

from kazoo.client import KazooClient

logging.basicConfig(level=logging.ERROR)
PARTIES, ROUNDS = 3, 5


def together(clients, what):
    """Run what(client, number) for every client at once."""
    errors = []

    def run(client, number):
        try:
            what(client, number)
        except Exception as e:  # pylint: disable=broad-except
            errors.append(e)

    threads = [threading.Thread(target=run, args=(c, i), daemon=True) for i, c in enumerate(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "it hangs"
    assert not errors, errors


def main(addr):
    clients = [KazooClient(hosts=addr, timeout=10) for _ in range(PARTIES)]
    for c in clients:
        c.start()

    inside, held = [0], [0]

    def lock(client, number):
        mutex = client.Lock("/kazoo/lock", "party %d" % number)
        for _ in range(ROUNDS):
            with mutex:
                inside[0] += 1
                assert inside[0] == 1, "two of them hold the lock"
                held[0] += 1
                client.get_children("/kazoo")
                inside[0] -= 1

    together(clients, lock)
    assert held[0] == PARTIES * ROUNDS, held
    print("lock", flush=True)

    elected = []

    def elect(client, number):
        def lead():
            elected.append(number)

        client.Election("/kazoo/election", "party %d" % number).run(lead)

    together(clients, elect)
    assert sorted(elected) == list(range(PARTIES)), elected
    print("election", flush=True)

    entered = [0]
    # kazoo's parties may miss the barrier's node if another one leaves while
    # they enter.
    all_in = threading.Barrier(PARTIES)

    def barrier(client, number):
        b = client.DoubleBarrier("/kazoo/barrier", PARTIES)
        entered[0] += 1
        b.enter()
        assert entered[0] == PARTIES, "entered alone"
        all_in.wait(60)
        b.leave()

    together(clients, barrier)
    print("barrier", flush=True)

    for c in clients:
        c.stop()
        c.close()


main(sys.argv[1])
