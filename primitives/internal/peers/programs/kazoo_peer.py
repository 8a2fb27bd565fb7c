"""kazoo's recipes, which do what standard input says: the protocol is in protocol.go."""

import logging
import os
import queue
import sys
import threading

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import CancelledError, LockTimeout
from kazoo.recipe.lock import Lock, ReadLock
from kazoo.retry import ForceRetryError

logging.basicConfig(level=logging.ERROR)
output, claims = threading.Lock(), {}


def say(*words):
    with output:
        sys.stdout.write(" ".join(str(w) for w in words).replace("\n", " ") + "\n")
        sys.stdout.flush()


class StandardLock(Lock):
    """A kazoo lock whose nodes are named as the published recipe names them."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


class LaterReadLock(ReadLock):
    """ReadLock as kazoo 2.9 has it.

    In 2.8 a reader also waits for the writers behind it, which wait for the reader.
    """

    def _get_predecessor(self, node):
        children = self.client.get_children(self.path)
        if node not in children:
            raise ForceRetryError()
        own = node[len(self.prefix):]
        ahead = [m for m in map(self._contenders_re.search, children) if m and m.group(1) < own]
        return max(ahead, key=lambda m: m.group(1)).string if ahead else None


def recipe(client, kind, path, identifier):
    if kind == "lock":
        return client.Lock(path, identifier)
    if kind == "pattern":
        return client.Lock(path, identifier, extra_lock_patterns=["-lock-"])
    if kind == "standard":
        return StandardLock(client, path, identifier)
    if kind == "read":
        return client.ReadLock(path, identifier)
    if kind == "later-read":
        return LaterReadLock(client, path, identifier)
    if kind == "write":
        return client.WriteLock(path, identifier)
    if kind == "election":
        return client.Election(path, identifier)
    raise ValueError("unknown kind " + kind)


class Claim(threading.Thread):
    """A recipe, and the thread that it is used by."""

    def __init__(self, client, name, what, millis):
        super().__init__(name="claim " + name, daemon=True)
        self.client, self.claim, self.what = client, name, what
        self.timeout = millis / 1000 if millis > 0 else None
        self.orders, self.held, self.holds = queue.Queue(), False, False

    def order(self, words):
        """Have the claim do what it is told, or give up if it waits."""
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
        lock = getattr(self.what, "lock", self.what)
        self.held = self.holds = True
        say("acquired", self.claim, lock.path + "/" + lock.node)
        words = self.orders.get()
        while words[0] == "visit":
            self.visit(words[2])
            words = self.orders.get()
        self.holds = False

    def visit(self, path):
        try:
            _, stat = self.client.get(path)
            stat = self.client.set(path, self.claim.encode(), version=stat.version)
            say("visited", self.claim, stat.version)
        except Exception as e:  # pylint: disable=broad-except
            say("refused", self.claim, repr(e))


def obey(client, words):
    name = words[1]
    try:
        if words[0] == "acquire":
            claim = Claim(client, name, recipe(client, words[2], words[3], name), int(words[4]))
            claims[name] = claim
            claim.start()
        elif words[0] in ("visit", "release"):
            claim = claims.get(name)
            if claim is not None:  # and otherwise it has ended, and said so
                claim.order(words)
        elif words[0] == "line":
            say("answer", name, *recipe(client, words[2], words[3], name).contenders())
        else:
            raise ValueError("unknown command %r" % words)
    except Exception as e:  # pylint: disable=broad-except
        logging.exception(name)
        say("failed", name, repr(e))


def main(servers, millis):
    client = KazooClient(hosts=servers, timeout=int(millis) / 1000)

    def changed(state):
        if state == KazooState.LOST:
            for claim in list(claims.values()):
                if claim.holds:
                    say("lost", claim.claim)

    client.start(timeout=30)
    client.add_listener(changed)
    say("ready")
    for line in sys.stdin:
        obey(client, line.split())
    client.remove_listener(changed)
    client.stop()
    client.close()
    os._exit(0)  # whatever still waits


main(sys.argv[1], sys.argv[2])
