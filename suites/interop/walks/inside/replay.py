"""Takes the steps of a walk on a live cluster: serves one side of it, or takes the whole walk by itself.

`printing.py` puts it into one file with a service's class Side. Needs Python 3.9 and the service's Python binding.

    python3 walk.py                               takes every step in one process, with one connection for each side
    python3 walk.py conf=/etc/ceph/ceph.conf name=client.admin pool=walk            settings of all sides
    python3 walk.py aarch64.run="ssh n2 python3 walk.py" aarch64.conf=/etc/other    settings of one side

`run` starts this file on another machine. Status 0: all answers as wanted; 1: one was wrong, and is shown; 2: usage.
"""

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time


def content(seed, size):
    """The bytes that a step writes."""
    return hashlib.shake_128(str(seed).encode()).digest(size)


def told(data):
    """Content in the form of answers: its size, and the start of its SHA-256."""
    return "%d:%s" % (len(data), hashlib.sha256(data).hexdigest()[:16])


def output_of(command):
    """What a program prints. OSError if it fails."""
    result = subprocess.run(command, capture_output=True, check=False)
    if result.returncode:
        raise OSError("%s: %s" % (command[0], result.stderr[-300:].decode(errors="replace")))
    return result.stdout


def answer(side, operation, arguments):
    """The cluster's answer to a step, in JSON types. A refusal is {"refused": WORD}."""
    try:
        value = getattr(side, "op_" + operation)(**arguments)
    except side.refusals as error:
        value = {"refused": side.word(error)}
    return json.loads(json.dumps(value))


def serve(make):
    """Serve one side for another process. The first line has the settings, each further line a step or a new place.

    Each line gets one line as its answer, except for `die`: the program ends as if it crashed. After `end` its side
    holds nothing in the cluster.
    """
    side = None
    for line in sys.stdin:
        operation, arguments = json.loads(line)
        if operation == "settings":
            side = make(arguments)
            answered = "ready"
        elif operation == "begin":
            answered = side.begin(**arguments)
        elif operation == "end":
            side.close()
            side, answered = None, "ended"
        elif operation == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            answered = answer(side, operation, arguments)
        print(json.dumps(answered), flush=True)
    if side is not None:
        side.close()


class Remote:
    """A side that another process serves."""

    def __init__(self, command, settings):
        self.process = subprocess.Popen(
            [*shlex.split(command), "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ask("settings", settings)
        self.ask("begin", {"place": settings["place"]})

    def ask(self, operation, arguments):
        self.process.stdin.write(json.dumps([operation, arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("%r ended" % (self.process.args,))
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Here:
    """A side in this process."""

    def __init__(self, make, settings):
        self.side = make(settings)
        self.side.begin(settings["place"])

    def ask(self, operation, arguments):
        return answer(self.side, operation, arguments)

    def close(self):
        self.side.close()


def settings_of(words, name, kind_settings):
    """The settings of one side on the command line."""
    settings = {**kind_settings, "place": "walk%d" % int(time.time())}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            print("settings are key=value, got %r; see the beginning of this file" % word, file=sys.stderr)
            sys.exit(2)
        of, dot, own = key.partition(".")
        if not dot or of == name:
            settings[own if dot else key] = value
    return settings


def replay(make, steps, kind_settings):
    """Take every step. Returns 1 at the first wrong answer, else 0."""
    words, sides = sys.argv[1:], {}
    for name in sorted({step[0] for step in steps}):
        settings = settings_of(words, name, kind_settings)
        command = settings.pop("run", "")
        sides[name] = Remote(command, settings) if command else Here(make, settings)
    try:
        for number, (name, operation, arguments, wanted) in enumerate(steps, 1):
            got = sides[name].ask(operation, arguments)
            if got != wanted:
                print("step %d of %d, %s through %s, %s" % (number, len(steps), operation, name, arguments))
                print("got    %s\nwanted %s" % (json.dumps(got, sort_keys=True), json.dumps(wanted, sort_keys=True)))
                return 1
        print("%d steps, every answer as wanted" % len(steps))
        return 0
    finally:
        for side in sides.values():
            side.close()


def main(make, steps, kind_settings):
    """Serve a side, or take the walk."""
    if sys.argv[1:] == ["serve"]:
        serve(make)
        return 0
    return replay(make, steps, kind_settings)
