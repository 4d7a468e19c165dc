package builtintest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/browser"
	"github.com/toolroom/toolroom/internal/builtin/file"
	"github.com/toolroom/toolroom/internal/builtin/git"
	"github.com/toolroom/toolroom/internal/builtin/google"
	"github.com/toolroom/toolroom/internal/builtin/k8s"
	"github.com/toolroom/toolroom/internal/builtin/media"
	"github.com/toolroom/toolroom/internal/builtin/memory"
	"github.com/toolroom/toolroom/internal/builtin/message"
	"github.com/toolroom/toolroom/internal/builtin/shell"
	"github.com/toolroom/toolroom/internal/builtin/storage"
	"github.com/toolroom/toolroom/internal/builtin/system"
	"github.com/toolroom/toolroom/internal/builtin/web"
)

// Packs returns all packs, for their definitions only: their tools cannot be called.
func Packs() builtin.Packs {
	s := shell.New(shell.Options{})
	return builtin.Packs{
		file.Pack(file.Options{}, nil), s.Pack(nil), s.ProcessPack(nil), web.Pack(web.Options{}), git.Pack(s, nil), memory.Pack("", nil),
		browser.Pack(browser.Options{}), system.CronPack(system.CronOptions{}), message.Pack(nil), system.SessionPack(system.SessionOptions{}), storage.Pack(storage.Options{}), k8s.Pack(k8s.Options{}), media.Pack(media.Options{}), google.Pack(google.Options{}),
	}
}

// Optional reports whether a pack is off unless the config has a section for it.
func Optional(pack string) bool {
	return slices.Contains([]string{"storage", "k8s", "media", "google"}, pack)
}

// Tools returns the definitions of all built-in tools.
func Tools() ([]toolroom.Tool, error) {
	var all []toolroom.Tool
	for _, p := range Packs() {
		all = append(all, p.List()...)
	}
	info, err := system.Tools("")
	for _, f := range info {
		all = append(all, f.Tool)
	}
	return all, err
}

// WriteTools writes the definitions in the format of toolroom bench search.
func WriteTools(w io.Writer) error {
	tools, err := Tools()
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	for _, t := range tools {
		line := map[string]any{"id": t.ID.String(), "name": t.ID.Name, "description": t.Title + ". " + t.Description, "schema": t.InputSchema, "tags": slices.Concat(t.Tags, t.Keywords)}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// about is the introduction of each pack.
var about = map[string]string{
	"file":     "Paths are confined to `builtin.file.roots` (the folder in which Toolroom was started, if the config names none), after all links are resolved. `toolroom.yaml`, Toolroom's own state and the folder `.git` are protected also inside. Writes replace a file in one step, approvals show a diff, and `file:undo` restores what the last calls of a session replaced, for callers with the same agent, provider, skill, groups and scopes.",
	"shell":    "Commands run in a sandbox of this machine: they see the folders of the file tools, the installed programs, and a `/tmp` of their own. Each has a loopback of its own, where it finds what its caller's background processes serve, and no other network, unless `builtin.shell.network` is `guarded` (through a proxy that applies the rules of `egress`: `git clone`, `npm` and `pip` find it in the environment) or `host`. `HOME` is a folder of the caller in Toolroom's home (`builtin/shell`), where compilers and package managers keep their caches; it may be removed at any time. If it has more than `builtin.shell.home` (10 GiB) before a command, only `rm`, `du` and `ls` run; it is not measured while a command runs. Without the sandbox they run only with `builtin: {shell: {runtime: host}}`. With `runtime: docker` (or `gvisor`, `containerd`, `docker/runsc`) they run in a [sandbox of that driver](runtimes.md), with the same folders, sessions, limits and network; the programs are those of its image (`builtin.shell.image`; `gvisor` shows this machine's), and nothing outside reaches what a command serves: use a server within the command that starts it (`server & curl localhost:8080`), or write `runtime: process` to reach it from other tools. A policy rule about a program cannot be enforced there, so that no command runs. A written rule of the policy (`@engine(\"docker\")`) chooses such a sandbox for single tools or callers; `@isolation` chooses none, but refuses calls whose sandbox is weaker. A session keeps the working folder and the exported variables from one command to the next, for callers with the same agent, provider, skill, groups and scopes. A cancelled or late command ends with all processes that it started. With `pty` it runs in a terminal, if this is Linux or the sandbox of a driver: `stdin` is typed, and errors are part of `stdout`.",
	"process":  "Processes run where `shell:exec` runs commands, until they end, are killed, or Toolroom stops; so they need `toolroom serve`, not a single `toolroom call`. The last 4 MiB that a process has printed are kept in memory and can be read from any offset, also after the client was restarted or its MCP session reopened; they are not written to disk, because they may hold secrets, so they end with Toolroom. With `pty` a process has a terminal (on Linux), and `process:write` types into it. What a process in the sandbox serves on its loopback (a dev server at `localhost:8080`) is reached at the same address by `web:fetch`, the browser, and the commands and processes that its caller starts later; nobody else reaches it. Each caller sees only its own processes, and those of its narrower selves (an agent, a skill, fewer groups or scopes).",
	"web":      "Connections pass the [egress guard](security.md#egress), which judges every redirect and address: this machine and private networks need an entry in `egress.allow`, except what the caller's own background processes serve. Results carry the label `untrusted`. Hidden parts of pages are removed. `web:search` and `web:search.news` need a provider: `builtin.web.search`.",
	"git":      "The program git runs where `shell:exec` runs commands, with hooks, monitors, filters, external diffs, checks of signatures and the network off. A repository that sets filters can be read, but not changed. If the config has a source named `git`, the pack is off.",
	"browser":  "Tools drive a Chromium of this machine, without a window: each session of each identity has one of its own, with an empty profile, which ends after `builtin.browser.idle` without a call. Browsers and checkpoints hold logins, so that callers of one subject with another agent, provider, skill, groups or scopes do not share them. So it needs `toolroom serve` or an MCP client, not a single `toolroom call`. Pages are shown as accessibility trees, whose elements have references; an action returns what changed. Dialogs are dismissed unless a call says otherwise; downloads become artifacts. All connections pass the [egress guard](security.md#the-browser). Results carry the label `untrusted`. As root, Chromium runs without its own sandbox: [what that means](security.md#the-browser).",
	"sessions": "A session is the name of a conversation (`session` of a call, an MCP session) or of a code session (`session` of `code:execute`), in which programs keep variables. The tools show the caller's own sessions and calls, and those of its narrower selves. `sessions:list` counts the calls among the caller's latest 10,000. Texts of earlier calls bring their taint labels with them.",
	"storage":  "Buckets of MinIO, Amazon S3 or another server with the S3 protocol. The pack is off unless the config has a section for it:\n```yaml\nbuiltin:\n  storage: {url: \"https://s3.example.com\", bucket: docs, access_key: AKID, secret_key: \"secret://s3/key\"}\n```\nThe tools use `bucket` and those in `buckets` (`\"*\"` permits any), with the one key of the config, whoever calls. `minio:share` uploads a file in parts, without holding it in memory; if the transfer breaks, another call with the same file sends only what is missing. (Parts of an upload that is given up stay in the bucket until a rule of the bucket removes them.) A link works for anyone who has it, at most `max_expiry`; it is in the receipt's preview, too. `minio:ingest` and `minio:sync` read text, PDF, DOCX, HTML and CSV (each row becomes a paragraph), and go on where a broken transfer ended. What they put into memory belongs to the caller, as with `memory:write`. Texts carry the label `untrusted`.",
	"k8s":      "The tools read a Kubernetes cluster and change nothing. The pack is off unless the config has a section for it: `builtin: {k8s: {}}` uses the file that kubectl reads, or in a Pod its service account; `kubeconfig` names another file, or a secret (`secret://k8s/config`), which may be each caller's own (`toolroom secret set k8s/config --for ann`) and must hold certificates and keys itself. Programs that a kubeconfig names for logging in are not run. Its tokens, passwords and keys are redacted. What the user or service account may see, the callers may see; what RBAC refuses is told with the command that would permit it. A cluster that a caller's own kubeconfig names must pass the [egress guard](security.md#egress). Rows are those that kubectl prints. Texts carry the label `untrusted`.",
	"media":    "Pictures, sounds and other files, given in base64, as an artifact's handle or as a path. Their type is what their bytes say; one is at most `max_bytes`. The pack is off unless the config has a section for it:\n```yaml\nbuiltin:\n  media:\n    vision: {provider: anthropic, model: MODEL, key: \"secret://anthropic/key\"}   # or openai, and what speaks like it (url)\n    speech: {model: whisper-1, key: \"secret://openai/key\"}                      # OpenAI's form; url: http://127.0.0.1:8000/v1 for a server of your own\n```\n`media:send` without `channel` returns the file as content, which the client shows; with it the file goes the way of `message:send`. `remove_metadata` takes EXIF, XMP and texts out of JPEG, PNG, GIF and WebP without touching pixels. `screen:capture` needs a desktop session and one of grim, maim, ImageMagick's import, scrot, gnome-screenshot or (macOS) screencapture; `camera:capture` a camera and ffmpeg, fswebcam or imagesnap. These programs run on this machine, as Toolroom's user. Their pictures carry the label `private`, and what a model says about an image or sound the label `untrusted`.",
	"google":   "Gmail, Calendar, Docs, Drive and Tasks, read only. The pack is off unless the config has a section for it:\n```yaml\nbuiltin:\n  google: {client_id: ID, client_secret: \"secret://google/client\", services: [calendar, drive]}\n```\nThe client is an OAuth client of the kind \"Desktop app\", made in Google's console, in a project in which the APIs are enabled; without `services` all five are asked for. A person logs in with `toolroom sources login google` (`--as ann` for a caller); each caller needs a login of its own, as do callers of one subject with another agent, provider, skill, groups or scopes, unless `shared` is set. Google calls the permissions for Gmail and Drive restricted: a client that others than its makers use needs Google's review. A source with the name of a namespace (such as `docs`) takes its place. The tools were tested against a double made from Google's documentation, not against Google. Results carry the labels `untrusted` and `private`.",
	"memory":   "Notes are Markdown files below `builtin/memory` in Toolroom's home, in a folder for each identity (callers of one subject that are narrowed differently have different notes); a person may read and edit them. Search ranks paragraphs by their words, and with an [embedder](calling.md#search-by-meaning) also by their meaning; the vectors are in a file beside the notes, and are overwritten when their text goes.",
	"message":  "Channels are those of the config, and a message goes only to their `recipients` (`\"*\"` permits any):\n```yaml\nbuiltin:\n  message:\n    channels:\n      team:  {provider: slack, key: \"secret://slack/key\", recipients: [\"#general\"]}\n      phone: {provider: telegram, key: \"secret://telegram/key\", recipients: [\"12345\"]}\n      room:  {provider: matrix, url: \"https://matrix.org\", key: \"secret://matrix/key\", recipients: [\"!abc:matrix.org\"]}\n      mail:  {provider: smtp, url: \"smtps://mail.example.com:465\", user: agent, key: \"secret://smtp/key\", from: agent@example.com, recipients: [ann@example.com]}\n      hook:  {provider: webhook, url: \"https://example.com/hook\"}\n```\nKeys are those of a bot or user: Slack's needs the scope `chat:write`. A webhook gets `{text, subject, recipient}` as JSON, with the key as bearer token. Mail goes with TLS if the server offers it, and a password never without, except to this machine. Redirects are not followed, and errors show the answer without the key and the path of the address. A message whose answer is missing is not sent again.",
	"cron":     "A schedule belongs to the identity that makes it, and its calls have this identity: when one runs, the policy of that moment decides, a person approves if it says so, and a receipt has the surface `cron` and the schedule's id as session. It is seen, triggered and deleted by callers with the same subject that are at least as wide: their groups and scopes include its own, and they are not narrowed to another agent, provider or skill. A schedule of an identity whose tokens are all revoked makes no calls. Schedules are durable and need a running `toolroom serve`; several servers of one home make each call once. `missed` says what happens to runs whose time passes meanwhile. A run is dropped while the one before has not ended (with `missed: all` it comes after it). Runs are at least a minute apart, an identity has at most 100 schedules, and a scheduled call can neither make nor trigger one.\n\nTimes follow the clocks of the time zone (`timezone`, else `builtin.cron.timezone`, else UTC). When clocks are put forward, a run whose time is left out comes at the moment of the change; when they are put back, a time that occurs twice runs the first time only. Schedules for every hour (`*` as hour) and `@every` count real time. If this machine's clock is set back by up to three hours, nothing runs twice; if by more, times that come again run again. A clock that is set forward looks like a time without a server.",
}

// Markdown returns the reference of the packs.
func Markdown() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Built-in tools\n" +
		"<!-- Made by: go run ./test/builtindocs > docs/builtins.md -->\n\n" +
		"Toolroom brings tools of its own, in packs. They are on when Toolroom is started as a program; `builtin: {off: true}` turns all off,\n" +
		"`builtin: {shell: {off: true}}` one. A Go program that embeds a room turns them on with `room.Options.Workspace` or the section\n" +
		"`builtin`. Like the tools of any other source they are subject to policy, approvals and receipts: the profiles `minimal`, `messaging`,\n" +
		"`coding` and `full` name them (`tools: {profile: coding}`). `toolroom doctor` says what a pack lacks. Settings are in\n" +
		"[config.md](config.md).\n")
	for _, p := range Packs() {
		fmt.Fprintf(&b, "\n## %s\n%s\n", p.Name, about[p.Name])
		for _, t := range p.List() {
			if err := writeTool(&b, t); err != nil {
				return nil, err
			}
		}
	}
	return b.Bytes(), nil
}

// jsonSchema is the part of a JSON Schema that the reference shows.
type jsonSchema struct {
	Type        any                   `json:"type"`
	Description string                `json:"description"`
	Default     json.RawMessage       `json:"default"`
	Enum        []string              `json:"enum"`
	Properties  json.RawMessage       `json:"properties"`
	Required    []string              `json:"required"`
	Items       *jsonSchema           `json:"items"`
	members     []string              // names of Properties in their order
	parts       map[string]jsonSchema // Properties
}

func parse(raw json.RawMessage) (jsonSchema, error) {
	var s jsonSchema
	if err := json.Unmarshal(raw, &s); err != nil || len(s.Properties) == 0 {
		return s, err
	}
	if err := json.Unmarshal(s.Properties, &s.parts); err != nil {
		return s, err
	}
	d := json.NewDecoder(bytes.NewReader(s.Properties))
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return s, nil // the end: it has been read before
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			if depth == 1 {
				s.members = append(s.members, t)
				var skip json.RawMessage
				if err := d.Decode(&skip); err != nil {
					return s, err
				}
			}
		}
	}
}

func writeTool(b *bytes.Buffer, t toolroom.Tool) error {
	fmt.Fprintf(b, "\n### %s\n%s\n", t.ID, t.Description)
	input, err := parse(t.InputSchema)
	if err != nil {
		return err
	}
	if len(input.members) > 0 {
		b.WriteString("\n| argument | type | default | what |\n|---|---|---|---|\n")
	}
	for _, name := range input.members {
		p := input.parts[name]
		fallback := string(p.Default)
		if slices.Contains(input.Required, name) {
			fallback = "required"
		}
		what := p.Description
		if len(p.Enum) > 0 {
			what += " (" + strings.Join(p.Enum, ", ") + ")"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, typeName(p), fallback, strings.ReplaceAll(what, "|", `\|`))
	}
	output, err := parse(t.OutputSchema)
	if err != nil {
		return err
	}
	var members []string
	for _, name := range output.members {
		members = append(members, "`"+name+"`")
	}
	fmt.Fprintf(b, "\nReturns %s. Hints: %s.\n", strings.Join(members, ", "), hints(t.Hints))
	if len(t.Examples) > 0 {
		fmt.Fprintf(b, "```\ntoolroom call %s '%s'\n```\n", t.ID, strings.ReplaceAll(string(t.Examples[0].Arguments), "'", `'\''`))
	}
	return nil
}

func typeName(s jsonSchema) string {
	name := fmt.Sprint(s.Type)
	if s.Items != nil {
		name += " of " + fmt.Sprint(s.Items.Type)
	}
	return cmp.Or(name, "any")
}

func hints(h toolroom.Hints) string {
	var words []string
	if h.IsReadOnly() {
		words = append(words, "reads only")
	} else if h.IsDestructive() {
		words = append(words, "may destroy")
	} else {
		words = append(words, "changes, without destroying")
	}
	if h.IsOpenWorld() {
		words = append(words, "may reach outside")
	}
	return strings.Join(words, ", ")
}
