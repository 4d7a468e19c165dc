package builtintest

import (
	"cmp"

	"github.com/toolroom/toolroom"
)

// row is how a tool is called. Rows are called in their order, which makes what later ones
// need.
type row struct {
	tool string
	// args are valid arguments. The text mark is of the caller.
	args func(w *world, mark string) toolroom.Args
	// fails is the error of a valid call that cannot succeed on a machine without a screen.
	fails toolroom.Code
	// programs are the programs that the tool starts besides those of its command effects.
	programs []string
	// slow are arguments with which a call takes long.
	slow func(w *world) toolroom.Args
	// keep is the id in the value that later rows use, by its member.
	keep string
}

func fixedArgs(args toolroom.Args) func(*world, string) toolroom.Args {
	return func(*world, string) toolroom.Args { return args }
}

// git is what the tools of Git start.
var gitPrograms = []string{"git"}

func rows() []row {
	type args = toolroom.Args
	pid := func(more args) func(*world, string) args {
		return func(w *world, mark string) args {
			all := args{"pid": w.keptNumber(mark + "pid")}
			for k, v := range more {
				all[k] = v
			}
			return all
		}
	}
	own := func(mark string) string { return "sub/" + mark[:1] + mark[len(mark)-1:] + ".txt" } // the folder is shared, the name no secret
	schedule := func(w *world, mark string) args { return args{"id": cmp.Or(w.ids[mark+"id"], "none")} }
	page := func(w *world, _ string) args { return args{"url": w.url + "/site/"} }
	return []row{
		{tool: "system:info", args: fixedArgs(args{})},
		{tool: "file:write", args: func(_ *world, mark string) args { return args{"path": own(mark), "content": "one\ntwo\n"} }},
		{tool: "file:read", args: fixedArgs(args{"path": "a.txt"})},
		{tool: "file:edit", args: func(_ *world, mark string) args { return args{"path": own(mark), "search": "two", "replace": "2"} }},
		{tool: "file:patch", args: func(_ *world, mark string) args {
			return args{"patch": "--- a/" + own(mark) + "\n+++ b/" + own(mark) + "\n@@ -1,2 +1,2 @@\n one\n-2\n+two\n"}
		}},
		{tool: "file:undo", args: fixedArgs(args{})},
		{tool: "file:list", args: fixedArgs(args{"recursive": true})},
		{tool: "file:search", args: fixedArgs(args{"query": "one"})},
		{
			tool: "shell:exec", args: fixedArgs(args{"command": "git init -q . && git add . && git -c user.name=x -c user.email=x commit -q --allow-empty -m first && wc -c a.txt"}), programs: []string{"bash", "sh", "git", "wc", "env"}, // the session's variables are read by env
			slow: func(*world) args { return args{"command": "sleep 60"} },
		},
		{tool: "git:add", args: fixedArgs(args{"all": true}), programs: gitPrograms},
		{tool: "git:commit", args: fixedArgs(args{"message": "first", "all": true}), programs: gitPrograms},
		{tool: "git:status", args: fixedArgs(args{}), programs: gitPrograms},
		{tool: "git:diff", args: fixedArgs(args{}), programs: gitPrograms},
		{tool: "git:log", args: fixedArgs(args{}), programs: gitPrograms},
		{tool: "git:show", args: fixedArgs(args{}), programs: gitPrograms},
		{tool: "git:blame", args: fixedArgs(args{"file": "a.txt"}), programs: gitPrograms},
		{tool: "git:branch", args: fixedArgs(args{}), programs: gitPrograms},
		{tool: "process:start", args: fixedArgs(args{"command": "sleep", "args": []string{"60"}, "pty": true}), programs: []string{"sleep"}, keep: "pid"},
		{tool: "process:status", args: pid(nil)},
		{tool: "process:write", args: pid(args{"input": "x\n"})},
		{tool: "process:output", args: pid(nil), slow: func(w *world) args { return args{"pid": w.keptNumber("pid"), "wait": 50_000, "offset": 1 << 30} }},
		{tool: "process:list", args: fixedArgs(args{})},
		{tool: "process:kill", args: pid(nil)},
		{tool: "web:fetch", args: page, slow: func(w *world) args { return args{"url": w.url + "/slow/"} }},
		{tool: "web:search", args: fixedArgs(args{"query": "go"})},
		{tool: "web:search.news", args: fixedArgs(args{"query": "go"})},
		{tool: "memory:write", args: func(_ *world, mark string) args { return args{"namespace": "n", "content": "one by " + mark} }},
		{tool: "memory:append", args: func(_ *world, mark string) args { return args{"namespace": "n", "content": "two by " + mark} }},
		{tool: "memory:read", args: fixedArgs(args{"namespace": "n"})},
		{tool: "memory:edit", args: fixedArgs(args{"namespace": "n", "search": "one", "replace": "1"})},
		{tool: "memory:search", args: fixedArgs(args{"query": "two"})},
		{tool: "memory:list", args: fixedArgs(args{})},
		{tool: "memory:forget", args: fixedArgs(args{"namespace": "n"})},
		{tool: "sessions:create", args: func(_ *world, mark string) args { return args{"id": "of-" + mark} }},
		{tool: "sessions:list", args: fixedArgs(args{})},
		{tool: "sessions:history", args: fixedArgs(args{})},
		{tool: "sessions:delete", args: func(_ *world, mark string) args { return args{"id": "of-" + mark} }},
		{tool: "cron:create", args: func(_ *world, mark string) args {
			return args{"schedule": "@daily", "tool": "memory:list", "name": "of " + mark}
		}, keep: "id"},
		{tool: "cron:list", args: fixedArgs(args{})},
		{tool: "cron:trigger", args: schedule},
		{tool: "cron:pause", args: schedule},
		{tool: "cron:resume", args: schedule},
		{tool: "cron:delete", args: schedule},
		{tool: "message:send", args: fixedArgs(args{"text": "hello"})},
		{tool: "minio:share", args: fixedArgs(args{"path": "report.pdf"})},
		{tool: "minio:ingest", args: fixedArgs(args{"object_key": "a.txt"})},
		{tool: "minio:sync", args: fixedArgs(args{"prefix": ""})},
		{tool: "k8s:pods", args: fixedArgs(args{"namespace": "default"})},
		{tool: "k8s:deployments", args: fixedArgs(args{"namespace": "default"})},
		{tool: "k8s:logs", args: fixedArgs(args{"namespace": "default", "pod": "web-1"})},
		{tool: "media:send", args: fixedArgs(args{"path": "chart.png"})},
		{tool: "image:analyze", args: fixedArgs(args{"path": "chart.png"})},
		{tool: "audio:transcribe", args: fixedArgs(args{"path": "voice.ogg"})},
		{tool: "screen:capture", args: fixedArgs(args{}), fails: toolroom.CodeUnsupported},
		{tool: "camera:capture", args: fixedArgs(args{}), fails: toolroom.CodeUnsupported},
		{tool: "gmail:search", args: fixedArgs(args{})},
		{tool: "gmail:read", args: fixedArgs(args{"id": "m1"})},
		{tool: "calendar:list", args: fixedArgs(args{})},
		{tool: "calendar:events", args: fixedArgs(args{"from": "2026-12-01", "to": "2026-12-08"})},
		{tool: "docs:read", args: fixedArgs(args{"id": "d1"})},
		{tool: "drive:search", args: fixedArgs(args{"query": "budget"})},
		{tool: "drive:read", args: fixedArgs(args{"id": "f1"})},
		{tool: "tasks:lists", args: fixedArgs(args{})},
		{tool: "tasks:list", args: fixedArgs(args{})},
		{tool: "tasks:get", args: fixedArgs(args{"id": "t1"})},
		{tool: "browser:navigate", args: page, slow: func(w *world) args { return args{"url": w.url + "/slow/"} }},
		{tool: "browser:snapshot", args: fixedArgs(args{})},
		{tool: "browser:find", args: fixedArgs(args{"text": "page"})},
		{tool: "browser:click", args: fixedArgs(args{"selector": "h1"})},
		{tool: "browser:type", args: func(_ *world, mark string) args { return args{"selector": "input", "text": mark} }},
		{tool: "browser:wait_for", args: fixedArgs(args{"text": "Page"}), slow: func(*world) args { return args{"text": "never there", "timeout": 60_000} }},
		{tool: "browser:assert", args: fixedArgs(args{"selector": "h1", "count": 1})},
		{tool: "browser:content", args: fixedArgs(args{})},
		{tool: "browser:extract", args: fixedArgs(args{"selector": "h1"})},
		{tool: "browser:screenshot", args: fixedArgs(args{})},
		{tool: "browser:eval", args: fixedArgs(args{"expression": "document.querySelector('input').value"})},
		{tool: "browser:tabs", args: fixedArgs(args{})},
		{tool: "browser:checkpoint.save", args: func(_ *world, mark string) args { return args{"name": "of-" + mark} }},
		{tool: "browser:checkpoint.resume", args: func(_ *world, mark string) args { return args{"name": "of-" + mark} }},
		{tool: "browser:close", args: fixedArgs(args{})},
	}
}
