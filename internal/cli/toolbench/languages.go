package toolbench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/toolroom/toolroom/internal/engine"
)

// Each tool counts its calls, so that its value shows whether its state was fresh.
const (
	doubleTool = `calls = []

def double(x: int) -> list[int]:
    """Double a number."""
    calls.append(x)
    return [x * 2, len(calls)]
`
	tableTool = `# /// script
# dependencies = ["numpy", "pandas"]
# ///
import numpy as np
import pandas as pd

calls = []

def table(values: list[float]) -> list[float]:
    """Return the mean and the maximum."""
    calls.append(1)
    return [float(pd.Series(values).mean()), float(np.max(values)), len(calls)]
`
	twiceTool = `let calls = 0;

/** Double a number. */
export function twice(x: number): number[] { return [x * 2, ++calls] }
`
	checksumTool = `// toolroom:
//   dependencies: [graceful-fs@^4, "@node-rs/crc32@^1"]
import fs from "graceful-fs";
import {crc32} from "@node-rs/crc32";

let calls = 0;

/** Write a file and return its checksum. */
export function checksum(text: string): number[] {
  const there = fs.existsSync("a.txt");
  fs.writeFileSync("a.txt", text);
  return [crc32(fs.readFileSync("a.txt", "utf8")), ++calls + (there ? 1 : 0)];
}
`
)

// Pauses within which the room starts another process, so that starts keep up.
const (
	forkPause  = 40 * time.Millisecond
	startPause = 500 * time.Millisecond
)

// pythonPath is the interpreter that runs functions.
const pythonPath = "/usr/bin/python3"

func (b *benchmark) python(ctx context.Context) error {
	if _, err := b.Push(ctx, "double.py", doubleTool, ""); err != nil {
		return err
	}
	call := b.tool(ctx, "fn:double", `{"x":21}`, "[42,1]")
	return firstError(
		b.measure(ctx, "python: a function", b.o.Calls, forkPause, goal{p50: 3}, call),
		b.measure(ctx, "python: the same without pause", b.o.Calls, 0, goal{}, call),
		b.measure(ctx, "python: engine py-native alone", b.o.Calls, forkPause, goal{}, b.engineOnly(ctx, "py-native", "python", "42", engine.Layer{})),
		b.measure(ctx, "python: engine py alone", b.o.Calls, forkPause, goal{}, b.engineOnly(ctx, "py", "python", "42", engine.Layer{})),
		b.measureForks(ctx, "python: a forked interpreter", "pass", engine.Layer{}),
		b.measure(ctx, "python: python3 -c pass", b.o.Calls/4, 0, goal{}, runCommand(ctx, "", pythonPath, "-c", "pass")),
	)
}

func (b *benchmark) pythonPackages(ctx context.Context) error {
	layer, err := b.Push(ctx, "table.py", tableTool, b.o.Wheels)
	if err != nil {
		return err
	}
	call := b.tool(ctx, "fn:table", `{"values":[1,2,6]}`, "[3.0,6.0,1]")
	const imports, work = "import numpy as np, pandas as pd", "pd.Series([1.0, 2.0, 6.0]).mean(); np.max([1.0, 2.0, 6.0])"
	return firstError(
		b.measure(ctx, "numpy, pandas: a function", b.o.Calls, forkPause, goal{5, 25}, call),
		b.measure(ctx, "numpy, pandas: the same without pause", b.o.Calls, 0, goal{}, call),
		b.measure(ctx, "numpy, pandas: engine py-native alone", b.o.Calls, forkPause, goal{}, b.engineOnly(ctx, "py-native", "python", imports+"\n"+work, layer)),
		b.measureForks(ctx, "numpy, pandas: a forked interpreter", imports+"\n"+work, layer),
		b.measure(ctx, "numpy, pandas: python3 -c", max(b.o.Calls/20, 3), 0, goal{}, runCommand(ctx, "", pythonPath, "-c", sysPathLine(layer)+imports+"\n"+work)),
	)
}

func (b *benchmark) javascript(ctx context.Context) error {
	if _, err := b.Push(ctx, "twice.ts", twiceTool, ""); err != nil {
		return err
	}
	call := b.tool(ctx, "fn:twice", `{"x":21}`, "[42,1]")
	err := firstError(
		b.measure(ctx, "typescript: a function", b.o.Calls, time.Millisecond, goal{p50: 0.5}, call),
		b.measure(ctx, "typescript: the same without pause", b.o.Calls, 0, goal{}, call),
		b.measure(ctx, "typescript: engine js alone", b.o.Calls, time.Millisecond, goal{}, b.engineOnly(ctx, "js", "javascript", "return 42", engine.Layer{})),
	)
	node, missing := exec.LookPath("node")
	if missing != nil {
		b.report.Skipped = append(b.report.Skipped, "node -e: there is no node")
		return err
	}
	return firstError(err, b.measure(ctx, "typescript: node -e 0", max(b.o.Calls/20, 3), 0, goal{}, runCommand(ctx, "", node, "-e", "0")))
}

func (b *benchmark) nodePackages(ctx context.Context) error {
	node, err := exec.LookPath("node")
	if err != nil {
		b.report.Skipped = append(b.report.Skipped, "functions in Node: there is no node")
		return nil
	}
	layer, err := b.Push(ctx, "checksum.ts", checksumTool, b.o.Tarballs)
	if err != nil {
		return err
	}
	call := b.tool(ctx, "fn:checksum", `{"text":"hello"}`, "[907060870,1]")
	return firstError(
		b.measure(ctx, "node packages: a function", max(b.o.Calls/4, 3), startPause, goal{p50: 8}, call),
		b.measure(ctx, "node packages: the same without pause", max(b.o.Calls/20, 3), 0, goal{}, call),
		b.measure(ctx, "node packages: node -e", max(b.o.Calls/20, 3), 0, goal{}, runCommand(ctx, layer.Path, node, "-e", `require("graceful-fs"); require("@node-rs/crc32").crc32("hello")`)),
	)
}

// firstError returns the first error that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// runCommand returns an operation that starts a program, which must succeed.
func runCommand(ctx context.Context, folder, path string, args ...string) func() error {
	return func() error {
		c := exec.CommandContext(ctx, path, args...)
		c.Dir = folder
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", filepath.Base(path), err, out)
		}
		return nil
	}
}

// sysPathLine returns a line of Python that adds the packages of a layer to sys.path.
func sysPathLine(l engine.Layer) string {
	if l.Path == "" {
		return ""
	}
	return fmt.Sprintf("import sys; sys.path.insert(0, %q)\n", l.Path)
}

// forker is a program that forks the interpreter for each line it reads. It measures the cost of
// a fork without a sandbox.
const forker = `import os, sys
code = sys.argv[1]
exec(code)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        exec(code)
        os._exit(0)
    os.waitpid(pid, 0)
    print(flush=True)
`

// measureForks measures an interpreter that has run code and forks processes that run it again.
func (b *benchmark) measureForks(ctx context.Context, name, code string, layer engine.Layer) error {
	c := exec.CommandContext(ctx, pythonPath, "-c", sysPathLine(layer)+forker, code)
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = c.Wait() }() // it ends with its stdin
	defer in.Close()
	lines := bufio.NewReader(out)
	return b.measure(ctx, name, b.o.Calls, forkPause/4, goal{}, func() error {
		if _, err := io.WriteString(in, "\n"); err != nil {
			return err
		}
		_, err := lines.ReadString('\n')
		return err
	})
}
