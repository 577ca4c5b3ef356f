"""How long each thing takes, beside the floor of its parts on the same pages and, if asked, the Python ancestor.

    scripts/bench --pages 14000
    scripts/bench --dir PAGES --baseline seed_worker.py --python VENV/bin/python

All in one run and in turns, several times; the table shows medians and, of machines as they are, only the ratios are
worth comparing. Builds the program and its floor (`benches/edge_floor.rs`) first. With two numbers of pages the last
table shows how each cost grows. `--json FILE` keeps every single measurement.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from bench_wiki import LARGE, pages

PROJECT = pathlib.Path(__file__).resolve().parent.parent
QUIET = 0.4  # seconds: the default of watch.quiet_ms


class Run:
    """What one process took."""

    def __init__(self, command, cwd, env, timeout=7200):
        out = tempfile.TemporaryFile()
        err = tempfile.TemporaryFile()
        begun = time.monotonic()
        child = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, used = os.wait4(child.pid, 0)
        self.wall = time.monotonic() - begun
        child.returncode = self.code = os.waitstatus_to_exitcode(status)
        self.cpu = used.ru_utime + used.ru_stime
        self.peak = used.ru_maxrss / 1024  # MB; of the largest process, as the kernel tells
        out.seek(0)
        err.seek(0)
        self.out, self.err = out.read().decode("utf8", "replace"), err.read().decode("utf8", "replace")
        if self.code:
            sys.exit(f"{' '.join(map(str, command))}\nended with {self.code}\n{self.out[-2000:]}{self.err[-2000:]}")


class Bench:
    """One tree of pages, and what was measured on it: name → list of (wall, cpu, peak)."""

    def __init__(self, args, count, work):
        self.args, self.work = args, work
        self.measured = {}
        self.sizes = {}
        self.source = work / "source"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "WIKI_SYNC_"))}
        home = work / "home"
        home.mkdir()
        (home / ".gitconfig").write_text("[user]\n\tname = bench\n\temail = bench@example.org\n[gc]\n\tauto = 0\n[init]\n\tdefaultBranch = main\n")
        self.env |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home)}
        if args.dir:
            source = pathlib.Path(args.dir)
            texts = ((p.relative_to(source), p.read_bytes()) for p in sorted(source.rglob("*")) if p.suffix in (".md", ".mdx", ".markdown") and p.is_file())
        else:
            texts = ((path, text.encode()) for path, text in pages(count))
        self.count = self.bytes = 0
        for path, text in texts:
            place = self.source / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text)
            self.count += 1
            self.bytes += len(text)

    # What is measured.

    def note(self, name, wall, cpu=None, peak=None):
        self.measured.setdefault(name, []).append((wall, cpu, peak))
        print(f"  {name:<34} {wall:9.3f} s", file=sys.stderr, flush=True)

    def time(self, name, command, cwd):
        ran = Run(command, cwd, self.env)
        self.note(name, ran.wall, ran.cpu, ran.peak)
        return ran

    def ours(self, name, root, *command):
        return self.time(name, [self.args.binary, *command], root)

    def git(self, root, *command):
        return Run(["git", *command], root, self.env)

    def fresh(self, name, pages="wiki-output"):
        root = self.work / name
        remove(root)
        shutil.copytree(self.source, root / pages)
        self.git(root, "init", "-q")
        subprocess.run(["sync"], check=True)
        return root

    def floors(self, wiki):
        """The parts of a first sync, each done by nothing but its own engine."""
        this = [sys.executable, __file__]
        self.time("floor: read and SHA-256", [*this, "--part", "read", wiki / "wiki-output"], wiki)
        bare = self.fresh("bare")
        begun = Run(["git", "add", "-A"], bare, self.env)
        ended = Run(["git", "commit", "-qm", "all"], bare, self.env)
        self.note("floor: git add and commit", begun.wall + ended.wall, begun.cpu + ended.cpu, max(begun.peak, ended.peak))
        remove(bare)
        for name, command in [
            ("floor: SQLite, the same rows", [*this, "--part", "sqlite", wiki / ".wiki-sync/wiki.db"]),
            ("floor: Edge, the same points", [self.args.floor, wiki / ".wiki-sync/vectors"]),
        ]:
            ran = Run(command, self.work, self.env)
            self.note(name, json.loads(ran.out)["seconds"], None, ran.peak)

    def first_sync(self):
        wiki = self.fresh("wiki")
        self.ours("first sync", wiki, "drain", "--json")
        for name in ["wiki-output", ".git", ".wiki-sync", ".wiki-sync/wiki.db", ".wiki-sync/outbox.db", ".wiki-sync/vectors"]:
            self.sizes[name] = size(wiki / name)
        return wiki

    def small(self, wiki, times):
        """What happens all day."""
        page = sorted((wiki / "wiki-output").rglob("*.m*"))[self.count // 2]
        for n in range(times):
            self.time("git status", ["git", "status", "--porcelain"], wiki)
            self.ours("no-op drain", wiki, "drain", "--json")
            with page.open("a") as out:
                out.write(f"\nedit {time.time()} {n}\n")
            self.ours("one page edited, cold drain", wiki, "drain", "--json")
            self.ours("search", wiki, "search", "page", "--json")
            self.ours("--version", wiki, "--version")

    def index_write(self, wiki, times):
        """What git itself takes to write its index, which grows with the tree."""
        for _ in range(times):
            self.time("git update-index, one entry", ["git", "update-index", "--force-write-index"], wiki)

    def hooks(self, wiki, times):
        page = wiki / "wiki-output" / "hooked.md"
        for n in range(times):
            for name, way in [("commit, without hooks", "uninstall"), ("commit, with hooks", "install")]:
                Run([self.args.binary, "hooks", way], wiki, self.env)
                page.write_text(f"# {way} {n}\n")
                self.git(wiki, "add", str(page))
                self.time(name, ["git", "commit", "-qm", "one"], wiki)
        Run([self.args.binary, "hooks", "uninstall"], wiki, self.env)
        Run([self.args.binary, "drain"], wiki, self.env)

    def rename(self, wiki):
        folders = [path for path in (wiki / "wiki-output").iterdir() if path.is_dir()]
        folder = max(folders, key=lambda path: sum(1 for _ in path.rglob("*.m*")), default=None) if self.args.dir else wiki / "wiki-output/large"
        if folder:
            folder.rename(folder.with_name(folder.name + "-moved"))
            self.ours(f"folder of {LARGE} renamed, drain", wiki, "drain", "--json", "--allow-mass-delete")

    def verify(self, wiki):
        self.ours("verify", wiki, "verify", "--json")
        self.ours("verify --fast", wiki, "verify", "--fast", "--json")

    def watch(self, wiki, times):
        """From the end of the quiet window to consistent, as the watch itself says: a line once all stores hold the page."""
        child = subprocess.Popen([self.args.binary, "watch", "--json"], cwd=wiki, env=self.env, stdout=subprocess.PIPE, text=True)
        lines, came = [], threading.Condition()

        def read():
            for line in child.stdout:
                with came:
                    lines.append((time.monotonic(), json.loads(line)))
                    came.notify_all()

        threading.Thread(target=read, daemon=True).start()

        def synced(since, timeout=600):
            with came:
                came.wait_for(lambda: any(line.get("event") == "synced" for _, line in lines[since:]), timeout)
                return next((at for at, line in lines[since:] if line.get("event") == "synced"), None)

        try:
            if synced(0) is None:
                sys.exit("the watch never said that it is in sync")
            page = sorted((wiki / "wiki-output").rglob("*.m*"))[self.count // 3]
            for n in range(times):
                time.sleep(1)
                since, begun = len(lines), time.monotonic()
                with page.open("a") as out:
                    out.write(f"\nwatched {n}\n")
                at = synced(since)
                if at is None:
                    sys.exit("the watch took no page")
                self.note("one page edited, watch", at - begun - QUIET)
        finally:
            child.send_signal(signal.SIGINT)
            child.wait(60)

    def ancestor(self):
        with redis_server(self.work) as url:
            state = self.work / "ancestor"
            remove(state)
            command = [self.args.python, pathlib.Path(self.args.baseline).resolve(), self.source, "--state", state, "--vectors", self.args.baseline_vectors]
            if self.args.baseline_limit:
                command += ["--limit", str(self.args.baseline_limit)]
            ran = Run(command, self.work, self.env | {"REDIS_URL": url})
        said = json.loads(ran.out.splitlines()[-1])
        took = said["drain_s"] * self.count / max(1, said["processed"])
        self.note("ancestor, all pages", took, None, ran.peak)

    def run(self):
        args = self.args
        for round in range(args.rounds):
            print(f"{self.count} pages, {self.bytes / 1e6:.1f} MB, round {round + 1} of {args.rounds}", file=sys.stderr)
            wiki = self.first_sync()
            self.floors(wiki)
            self.small(wiki, args.times)
            self.index_write(wiki, args.times)
            self.hooks(wiki, args.times)
            self.verify(wiki)
            self.watch(wiki, args.times)
            self.rename(wiki)
            if args.baseline:
                self.ancestor()
        shutil.rmtree(self.work, ignore_errors=True)

    # What is shown.

    def median(self, name, what=0):
        values = [one[what] for one in self.measured.get(name, []) if one[what] is not None]
        return statistics.median(values) if values else None

    def sum(self, *names):
        values = [self.median(name) for name in names]
        return None if None in values else sum(values)

    def ratios(self):
        """Yields (what, its seconds, what it is set against, that one's seconds, the bound)."""
        status, sync = self.median("git status"), self.median("first sync")
        floors = self.sum(*(name for name in self.measured if name.startswith("floor:")))
        yield "first sync", sync, "the sum of its floors", floors, "1.6 ×"
        yield "no-op drain", self.median("no-op drain"), "3 × git status + 30 ms", 3 * status + 0.03, "1 ×"
        yield "one page edited, cold drain", self.median("one page edited, cold drain"), "3 × git status + 200 ms", 3 * status + 0.2, "1 ×"
        with_hooks, without = self.median("commit, with hooks"), self.median("commit, without hooks")
        yield "a commit's hook", with_hooks - without, "15 ms", 0.015, "1 ×"
        yield "one page edited, watch", self.median("one page edited, watch"), "100 ms", 0.1, "1 ×"
        yield "binary start", self.median("--version"), "15 ms", 0.015, "1 ×"
        ancestor = self.median("ancestor, all pages")
        if ancestor:
            yield "the ancestor, all pages", ancestor, "first sync", sync, "at least 20 ×, 50 × on a large tree"

    def table(self):
        print(f"\n{self.count} pages, {self.bytes / 1e6:.1f} MB, median of {self.args.rounds} rounds\n")
        print(f"{'':<36} {'wall s':>9} {'CPU s':>8} {'peak MB':>8} {'n':>4}")
        for name in sorted(self.measured, key=lambda name: not name.startswith("floor:")):
            cells = [self.median(name, what) for what in range(3)]
            wall, cpu, peak = (f"{cell:{form}}" if cell is not None else "" for cell, form in zip(cells, ("9.3f", "8.2f", "8.0f")))
            print(f"{name:<36} {wall:>9} {cpu:>8} {peak:>8} {len(self.measured[name]):>4}")
        print("\nratio  of                            to                            wanted")
        for what, took, against, base, bound in self.ratios():
            print(f"{took / base:5.2f}  {what:<29} {against:<29} {bound}" if base else f"    ?  {what}")
        print("\non disk, MB: " + ", ".join(f"{name} {bytes / 1e6:.1f}" for name, bytes in self.sizes.items()))


def growth(benches):
    """How each cost grows from the first tree to the last."""
    first, last = benches[0], benches[-1]
    print(f"\nfrom {first.count} to {last.count} pages, {last.count / first.count:.0f} × as many\n")
    for name in last.measured:
        before, after = first.median(name), last.median(name)
        if before and after:
            print(f"{after / before:7.2f} ×  {name}")
    index = "git update-index, one entry"
    for edit in ["one page edited, cold drain", "one page edited, watch"]:
        before, after = (bench.median(edit) - bench.median(index) for bench in (first, last))
        # A watch keeps the index in hand, and may be through before git has read and written it.
        print(f"{max(after, 0) / max(before, 0.001):7.2f} ×  {edit}, git's own index write taken off")


def remove(path):
    if path.exists():
        shutil.rmtree(path)
        # For 5 s ext4 without a journal gives no file the place of one that was removed, and looks for another at length.
        time.sleep(6)


def size(path):
    if path.is_file():
        return path.stat().st_blocks * 512
    return sum(p.lstat().st_blocks * 512 for p in path.rglob("*") if not p.is_dir())


@contextlib.contextmanager
def redis_server(work):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = work / "redis"
    folder.mkdir(exist_ok=True)
    server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def part_read(root):
    for folder, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as page:
                hashlib.sha256(page.read()).digest()


def part_sqlite(path):
    """The rows of a database, into a new one with the same tables and indexes, in one transaction."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as old:
        schema = [sql for (sql,) in old.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type = 'table' DESC, rowid") if not sql.startswith("CREATE VIEW")]
        names = [name for (name,) in old.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
        tables = {name: old.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
    with tempfile.TemporaryDirectory(dir=pathlib.Path(path).parent.parent) as place:
        new = sqlite3.connect(f"{place}/new.db")
        new.execute("PRAGMA journal_mode = WAL")
        for sql in schema:
            new.execute(sql)
        begun = time.monotonic()
        with new:
            for name, rows in tables.items():
                if rows:
                    new.executemany(f'INSERT INTO "{name}" VALUES ({",".join("?" * len(rows[0]))})', rows)
        print(json.dumps({"seconds": time.monotonic() - begun}))


def build():
    """Builds the program and its floor; returns both."""
    features = ["--features", "bench"]
    subprocess.run(["cargo", "build", "--release", *features, "--bins"], cwd=PROJECT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")) / "release"
    return target / "wiki-sync", target / "edge-floor"


def main():
    if sys.argv[1:2] == ["--part"]:
        return {"read": part_read, "sqlite": part_sqlite}[sys.argv[2]](sys.argv[3])
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", default="2000", metavar="N[,N]", help="so many pages, made by a seed; default 2000")
    parser.add_argument("--dir", help="a folder of Markdown pages instead; it is copied")
    parser.add_argument("--baseline", metavar="FILE", help="the Python ancestor, seed_worker.py")
    parser.add_argument("--python", default=sys.executable, help="what runs it: a Python with its packages")
    parser.add_argument("--baseline-vectors", default="edge", choices=["edge", "local", "none"])
    parser.add_argument("--baseline-limit", type=int, metavar="N", help="give it a sample of N pages, and count what all would take")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=5, help="of the small things, in each round")
    parser.add_argument("--binary", help="measure this one; default: built here")
    parser.add_argument("--floor", help="its edge-floor")
    parser.add_argument("--work", help="where the wikis are made, and removed again; default: the system's temporary folder")
    parser.add_argument("--json", metavar="FILE", help="write every measurement there")
    args = parser.parse_args()
    if not (args.binary and args.floor):
        built = build()
        args.binary, args.floor = args.binary or built[0], args.floor or built[1]
    args.binary, args.floor = pathlib.Path(args.binary).resolve(), pathlib.Path(args.floor).resolve()
    counts = [None] if args.dir else [int(count) for count in args.pages.split(",")]
    benches = []
    for count in counts:
        bench = Bench(args, count, pathlib.Path(tempfile.mkdtemp(prefix="wiki-sync-bench-", dir=args.work)))
        bench.run()
        bench.table()
        benches.append(bench)
    if len(benches) > 1:
        growth(benches)
    if args.json:
        whole = [{"pages": b.count, "bytes": b.bytes, "sizes": b.sizes, "measured": b.measured, "ratios": list(b.ratios())} for b in benches]
        pathlib.Path(args.json).write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
