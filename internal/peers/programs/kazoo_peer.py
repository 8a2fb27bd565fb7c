"""Runs kazoo's recipes by commands on standard input. The protocol is in protocol.go."""

import logging
import os
import queue
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import CancelledError, LockTimeout
from kazoo.recipe.barrier import Barrier, DoubleBarrier
from kazoo.recipe.counter import Counter
from kazoo.recipe.lock import Lock, ReadLock, Semaphore
from kazoo.recipe.party import Party, ShallowParty
from kazoo.recipe.queue import LockingQueue, Queue
from kazoo.retry import ForceRetryError
from kazoo.version import __version__

logging.basicConfig(level=logging.ERROR)
output, claims, ending = threading.Lock(), {}, threading.Event()


def say(*words):
    with output:
        sys.stdout.write(" ".join(str(w) for w in words).replace("\n", " ") + "\n")
        sys.stdout.flush()


class StandardLock(Lock):
    """A kazoo lock whose nodes have the names of the published recipe."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


class MendedReadLock(ReadLock):
    """ReadLock of kazoo 2.8 with the fix of kazoo 2.9.

    In 2.8 a reader also waits for the writers behind it, which wait for the reader.
    """

    def _get_predecessor(self, node):
        children = self.client.get_children(self.path)
        if node not in children:
            raise ForceRetryError()
        own = node[len(self.prefix):]
        ahead = [m for m in map(self._contenders_re.search, children) if m and m.group(1) < own]
        return max(ahead, key=lambda m: m.group(1)).string if ahead else None


class Wait:
    """A wait at a barrier. It cannot be cancelled."""

    def __init__(self, client, path):
        self.barrier, self.node = Barrier(client, path), path

    def acquire(self, timeout):
        if not self.barrier.wait(timeout):
            raise LockTimeout(self.node)
        return True

    def release(self):
        pass

    def cancel(self):
        pass


class Round:
    """A round of a double barrier. It cannot be cancelled, and has no timeout."""

    def __init__(self, client, path, parties, identifier):
        self.barrier = DoubleBarrier(client, path, parties, identifier)
        self.node = self.barrier.create_path

    def acquire(self, timeout):
        self.barrier.enter()
        if not self.barrier.participating:
            raise ValueError("not entered")
        return True

    def release(self):
        self.barrier.leave()

    def cancel(self):
        pass


class AtOnce:
    """What its user holds at once."""

    def acquire(self, timeout):
        return True

    def release(self):
        pass

    def cancel(self):
        pass


EMPTY = '""'  # an item without data


class Items(AtOnce):
    """A queue. kazoo's Queue cannot wait for an item, so take watches its nodes."""

    def __init__(self, client, path, what):
        self.client, self.node, self.queue = client, path, what(client, path)

    def put(self, data, priority):
        self.queue.put(b"" if data == EMPTY else data.encode(), int(priority))
        return ""

    def take(self, millis):
        seconds = int(millis) / 1000
        if isinstance(self.queue, LockingQueue):
            data = self.queue.get(seconds)
            if data is not None:
                self.queue.consume()
        else:
            data, end = self.queue.get(), time.monotonic() + seconds
            while data is None and time.monotonic() < end:
                changed = threading.Event()
                if not self.client.get_children(self.node, watch=lambda _, e=changed: e.set()):
                    changed.wait(max(end - time.monotonic(), 0))
                data = self.queue.get()
        return "" if data is None else data.decode() or EMPTY


class Member(AtOnce):
    """A member of a party."""

    def __init__(self, client, path, what, identifier):
        self.party = what(client, path, identifier)
        self.node = self.party.create_path

    def acquire(self, timeout):
        self.party.join()
        return True

    def release(self):
        self.party.leave()

    def contenders(self):
        return sorted(self.party)


class Count(AtOnce):
    """A counter."""

    def __init__(self, client, path, support_curator):
        self.node, self.counter = path, Counter(client, path, support_curator=support_curator)

    def add(self, n):
        self.counter += int(n)
        return str(self.counter.post_value)


def node(what):
    """Return the path of the node that stands for the grant."""
    what = getattr(what, "lock", what)
    if isinstance(what, Semaphore):
        return what.create_path
    return what.path + "/" + what.node if isinstance(what, Lock) else what.node


def recipe(client, kind, path, identifier):
    kind, _, number = kind.partition("=")
    number = int(number or 1)
    if kind == "semaphore":
        return client.Semaphore(path, identifier, max_leases=number)
    if kind == "barrier":
        return Wait(client, path)
    if kind == "double":
        return Round(client, path, number, identifier)
    if kind == "queue":
        return Items(client, path, Queue)
    if kind == "party":
        return Member(client, path, Party, identifier)
    if kind == "shallow-party":
        return Member(client, path, ShallowParty, identifier)
    if kind in ("counter", "curator-counter"):
        return Count(client, path, kind == "curator-counter")
    if kind == "locking-queue":
        return Items(client, path, LockingQueue)
    if kind == "lock":
        return client.Lock(path, identifier)
    if kind == "pattern":
        return client.Lock(path, identifier, extra_lock_patterns=["-lock-"])
    if kind == "standard":
        return StandardLock(client, path, identifier)
    if kind == "read":
        return client.ReadLock(path, identifier)
    if kind == "later-read":
        later = MendedReadLock if __version__.startswith("2.8.") else ReadLock
        return later(client, path, identifier)
    if kind == "write":
        return client.WriteLock(path, identifier)
    if kind == "election":
        return client.Election(path, identifier)
    raise ValueError("unknown kind " + kind)


class Claim(threading.Thread):
    """A recipe, and the thread that uses it."""

    def __init__(self, client, name, what, millis):
        super().__init__(name="claim " + name, daemon=True)
        self.client, self.claim, self.what = client, name, what
        self.timeout = millis / 1000 if millis > 0 else None
        self.orders, self.held, self.holds = queue.Queue(), False, False

    def order(self, words):
        """Pass a command to the holder. A claim that still waits gives up instead."""
        self.orders.put(words)
        if not self.held:
            self.what.cancel()

    def run(self):
        try:
            if hasattr(self.what, "run"):
                self.elect()
            elif self.what.acquire(timeout=self.timeout):
                self.hold()
                self.what.release()
            self.end()
        except (CancelledError, LockTimeout):
            self.end()
        except Exception as e:  # pylint: disable=broad-except
            logging.exception(self.claim)
            say("failed", self.claim, repr(e))
        finally:
            claims.pop(self.claim, None)

    def end(self):
        ordered = self.held or not self.orders.empty()
        say("released" if ordered else "timeout", self.claim)

    def elect(self):
        timer = None
        if self.timeout is not None:
            timer = threading.Timer(self.timeout, self.what.cancel)
            timer.start()
        self.what.run(self.hold)
        if timer is not None:
            timer.cancel()

    def hold(self):
        self.held = self.holds = True
        say("acquired", self.claim, node(self.what))
        words = self.orders.get()
        while words[0] != "release":
            try:
                does = self if words[0] == "visit" else self.what
                say("did", self.claim, getattr(does, words[0])(*words[2:]))
            except Exception as e:  # pylint: disable=broad-except
                say("refused", self.claim, repr(e))
            words = self.orders.get()
        self.holds = False

    def visit(self, path):
        _, stat = self.client.get(path)
        return self.client.set(path, self.claim.encode(), version=stat.version).version


def obey(client, words):
    name = words[1]
    try:
        if words[0] == "acquire":
            claim = Claim(client, name, recipe(client, words[2], words[3], name), int(words[4]))
            claims[name] = claim
            claim.start()
        elif words[0] in ("visit", "put", "take", "add", "release"):
            claim = claims.get(name)
            if claim is not None:  # None: the claim has ended, and has reported that
                claim.order(words)
        elif words[0] == "raise":
            Barrier(client, words[3]).create()
            say("answer", name)
        elif words[0] == "lift":
            Barrier(client, words[3]).remove()
            say("answer", name)
        elif words[0] == "line":
            client.sync(words[3])  # the client's server may lag behind the leader
            say("answer", name, *recipe(client, words[2], words[3], name).contenders())
        else:
            raise ValueError("unknown command %r" % words)
    except Exception as e:  # pylint: disable=broad-except
        logging.exception(name)
        say("failed", name, repr(e))


def connect(servers, millis):
    """Return a client, with a session of its own."""
    client = KazooClient(hosts=servers, timeout=int(millis) / 1000)

    def changed(state):
        if state == KazooState.LOST and not ending.is_set():
            for claim in list(claims.values()):
                if claim.client is client and claim.holds:
                    say("lost", claim.claim)

    client.start(timeout=30)
    client.add_listener(changed)
    return client


def main(servers, millis, sessions):
    clients = [connect(servers, millis) for _ in range(int(sessions))]
    say("ready", __version__)
    for line in sys.stdin:
        words = line.split()
        obey(clients[int(words[1].rpartition("-")[2]) % len(clients)], words)
    ending.set()
    for client in clients:
        client.stop()
        client.close()
    os._exit(0)  # do not wait for threads that still wait


main(*sys.argv[1:])
