package config_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/config"
)

func mistakes(t *testing.T, text string) string {
	t.Helper()
	_, err := config.Parse("t.yaml", []byte(text))
	if err == nil {
		return ""
	}
	var all *config.Errors
	if !errors.As(err, &all) || len(all.Problems) == 0 {
		t.Fatalf("%T: %v", err, err)
	}
	return err.Error()
}

func TestEveryMistakeIsReportedAtOnceInOrder(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/mistakes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/mistakes.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), mistakes(t, string(text))+"\n"); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEachMistakeNamesItsPlaceItsReasonAndTheRightForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sorces: {}":                        "t.yaml:1:1: sorces: unknown key; did you mean sources?",
		"frobnicate: 1":                     "t.yaml:1:1: frobnicate: unknown key; known: server, store, expose, sets, search, tools, policy, cli, code, limits, approvals, receipts, releases, results, artifacts, egress, secrets, builtin, sources",
		"tools:\n  alow: []":                "t.yaml:2:3: tools.alow: unknown key; did you mean allow?",
		"tools: [a]":                        "t.yaml:1:8: tools: want keys and values, got a list",
		"tools: {deny: browser.*}":          `t.yaml:1:15: tools.deny: want a list, got the text "browser.*"; write ["browser.*"]`,
		"tools: {deny: [{a: b}]}":           "t.yaml:1:16: tools.deny[0]: want a text, got keys and values",
		"tools: {deny: [~]}":                "t.yaml:1:16: tools.deny[0]: it has no value; remove the item",
		"tools: {deny: [fs]}":               `t.yaml:1:16: tools.deny[0]: "fs" has no namespace: write namespace.name, namespace.* or *`,
		"tools: {profile: codin}":           `t.yaml:1:18: tools.profile: there is no profile "codin" (did you mean coding?)`,
		"tools: {agents: {a: {deny: [x]}}}": `t.yaml:1:29: tools.agents.a.deny[0]: "x" has no namespace: write namespace.name, namespace.* or *`,
		"server: {listen: 7070}":            `t.yaml:1:18: server.listen: "7070" is not host:port; for example 127.0.0.1:7070`,
		"server: {listen: 'a:http'}":        `t.yaml:1:18: server.listen: the port "http" is not a number from 0 to 65535; for example 127.0.0.1:7070`,
		"server: {listen: }":                "t.yaml:1:10: server.listen: it has no value; remove the key to use its default",
		"server: {auth: {required: on}}":    `t.yaml:1:27: server.auth.required: "on" is not one of auto, always, never`,
		"server: {url: 'https://a', auth: {login: {issuer: 'https://b', client_id: c, client_secret: hunter2}}}": "t.yaml:1:93: server.auth.login.client_secret: it is not a reference; write env://NAME, or secret://scope/name and toolroom secret set scope/name",
		"server: {auth: {login: {issuer: 'https://b', client_id: c}}}":                                           "t.yaml:1:17: server.auth.login: the URL to which the provider redirects is missing; set server.url, for example https://tools.example.com",
		"server: {auth: {required: alway}}":                                                                      `t.yaml:1:27: server.auth.required: "alway" is not one of auto, always, never; did you mean always?`,
		"server: {origins: [example.com]}":                                                                       `t.yaml:1:20: server.origins[0]: "example.com" is not an origin; for example https://example.com, without a path`,
		"server: {tls: {cert: a.pem}}":                                                                           "t.yaml:1:10: server.tls: cert and key must be set together",
		"server: {max_body: 1MB}":                                                                                `t.yaml:1:20: server.max_body: want a whole number, got "1MB"`,
		"server: {max_body: 9223372036854775807}":                                                                "t.yaml:1:20: server.max_body: 9223372036854775807 is too large; the most is 9223372036854775806",
		`tools: {agents: {"a: b": {profile: x}}}`:                                                                `t.yaml:1:36: tools.agents.a: b.profile: there is no profile "x": there are coding, full, messaging, minimal`,
		"tools: {skills: {a: {permissions: {fs: {read: ['~/b/**']}}}}}":                                          `t.yaml:1:48: tools.skills.a.permissions.fs.read[0]: "~/b/**": write an absolute path, or **/name for one anywhere`,
		"tools: {skills: {a: {permissions: {fs: {write: [b]}}}}}":                                                `t.yaml:1:49: tools.skills.a.permissions.fs.write[0]: "b": write an absolute path, or **/name for one anywhere`,
		"tools: {skills: {a: {permissions: {net: [{host: 'b.de:443'}]}}}}":                                       `t.yaml:1:49: tools.skills.a.permissions.net[0].host: "b.de:443" is not a host: write its name alone, such as *.example.com, and ports under ports`,
		"policy: {spending: [{match: '*', unit: EUR, deny_above: 1e-7}]}":                                        "t.yaml:1:57: policy.spending[0].deny_above: it is less than a millionth",
		"builtin: {browser: {egress: {network: none}}}":                                                          "t.yaml:1:39: builtin.browser.egress.network: it applies only to programs of sources; remove it: a browser has only the hosts that egress permits",
		"builtin: {web: {egress: {network: none}}}":                                                              "t.yaml:1:35: builtin.web.egress.network: it applies only to programs of sources; remove it: web:fetch has only the hosts that egress permits",
		"builtin: {shell: {egress: {network: none}}}":                                                            "t.yaml:1:37: builtin.shell.egress.network: it applies only to programs of sources; remove it: builtin.shell.network determines the network of commands",
		"builtin: {shell: {env: {A=B: c}}}":                                                                      `t.yaml:1:30: builtin.shell.env.A=B: "A=B" is not the name of a variable; for example GITHUB_TOKEN`,
		"builtin: {web: {search: {provider: brave, key: 'secret://x'}}}":                                         `t.yaml:1:48: builtin.web.search.key: "secret://x" is not a reference to a secret: it needs a scope and a name of 1 to 128 characters of A-Z a-z 0-9 _ . -, without . or - at the beginning; for example secret://github/token`,
		"sources: {a: {cli: {command: b}, sandbox: {runtime: dokcer}}}":                                          "t.yaml:1:53: sources.a.sandbox.runtime: no runtime has the name dokcer; did you mean docker?",
		"server: {max_body: -1}":                                                                                 "t.yaml:1:20: server.max_body: -1 is negative",
		"server: {max_body: 99999999999999999999}":                                                               `t.yaml:1:20: server.max_body: want a whole number, got "99999999999999999999"`,
		"store: {url: mysql://u:secret@h}":                                                                       "t.yaml:1:14: store.url: unknown kind of store; write sqlite:toolroom.db",
		"expose: {mode: serch}":                                                                                  `t.yaml:1:16: expose.mode: "serch" is not one of auto, direct, search, code; did you mean search?`,
		"expose: {hidden: [a b:c]}":                                                                              `t.yaml:1:19: expose.hidden[0]: "a b:c": ' ' is not allowed in a pattern`,
		"cli: {allow: ['git status']}":                                                                           `t.yaml:1:15: cli.allow[0]: "git status" is not the name of a program; for example git`,
		"limits: {timeout: 30}":                                                                                  `t.yaml:1:19: limits.timeout: the duration "30" has no unit; for example 500ms, 30s, 5m or 1h30m`,
		"limits: {timeout: soon}":                                                                                `t.yaml:1:19: limits.timeout: "soon" is not a duration; for example 500ms, 30s, 5m or 1h30m`,
		"limits: {timeout: -3s}":                                                                                 `t.yaml:1:19: limits.timeout: the duration "-3s" is negative; for example 500ms, 30s, 5m or 1h30m`,
		"limits: {timeout: [1]}":                                                                                 "t.yaml:1:19: limits.timeout: want a duration, got a list; for example 500ms, 30s, 5m or 1h30m",
		"limits: {timeout: 1h}":                                                                                  "t.yaml:1:19: limits.timeout: 1h0m0s is more than max_timeout, 10m0s",
		"limits: {retry: {base: 1m}}":                                                                            "t.yaml:1:24: limits.retry.base: 1m0s is more than max, 30s",
		"limits: {cache: {ttl: 2h}}":                                                                             "t.yaml:1:23: limits.cache.ttl: 2h0m0s is more than 1h0m0s",
		"limits: {rate: {per_second: .inf}}":                                                                     `t.yaml:1:29: limits.rate.per_second: want a number, got ".inf"`,
		"results: {entry_bytes: 99999999}":                                                                       "t.yaml:1:24: results.entry_bytes: 99999999 is more than total_bytes, 33554432",
		"code: {default: {timeout: 2m, memory: 2}, max: {timeout: 1m, memory: 3}}":                               "t.yaml:1:27: code.default.timeout: 2m0s is more than code.max.timeout, 1m0s",
		"code: {default: {calls: 20000}}":                                                                        "t.yaml:1:25: code.default.calls: 20000 is more than code.max.calls, 10000",
		"code: {sessions: {entry_bytes: 9, bytes: 8}}":                                                           "t.yaml:1:32: code.sessions.entry_bytes: 9 is more than bytes, 8",
		"code: {sessions: {total_bytes: 7, bytes: 8}}":                                                           "t.yaml:1:42: code.sessions.bytes: 8 is more than total_bytes, 7",
		"code: {runtimes: {temporal: {address: 'http://t:7233', secret: 'secret://t/k'}}}":                       `t.yaml:1:39: code.runtimes.temporal.address: "http://t:7233" is not host:port; for example 127.0.0.1:7233, without a scheme`,
		"a: 1\na: 2":                          "t.yaml:1:1: a: unknown key; known: server, store, expose, sets, search, tools, policy, cli, code, limits, approvals, receipts, releases, results, artifacts, egress, secrets, builtin, sources\nt.yaml:2:1: a: duplicate key, first in line 1; remove one",
		"server: &x {}\nstore: *x":            "t.yaml:2:8: store: aliases are not supported; repeat the value",
		"server: {<<: {listen: a}}":           "t.yaml:1:10: server.<<: merge keys are not supported; repeat the keys",
		"server: !!map {}":                    "t.yaml:1:9: server: tags such as !!map are not supported; remove it",
		"? [a]\n: b":                          "t.yaml:1:3: a key must be plain text, got a list",
		"- a":                                 "t.yaml:1:1: want keys and values, got a list",
		"hello":                               `t.yaml:1:1: want keys and values, got the text "hello"`,
		"server: {\nlisten: [":                "t.yaml:3:1: not YAML: did not find expected node content; look at line 3 and above it: close each quote and bracket",
		"a: b: c":                             `t.yaml:1:5: not YAML: mapping values are not allowed in this context; look at line 1: quote a value that has ": " in it, give the keys of one block the same indentation, and close each bracket`,
		"server:\n  listen: a:1\n tools: {}":  "t.yaml:3:2: not YAML: did not find expected key; look at lines 2 and 3: give the keys of one block the same indentation, and close each quote and bracket",
		"server:\n\tlisten: a:1":              "t.yaml:2:1: not YAML: found character that cannot start any token; look at line 2: indent with spaces, not tabs, and quote a value that begins with @ or `",
		"server: {}\n---\nstore: {}":          "t.yaml:2:1: a second document begins; remove the line ---",
		"a: b\nc: \xff":                       "t.yaml:2:4: the text is not UTF-8; save the file as UTF-8",
		strings.Repeat("#", config.MaxFile+1): "t.yaml:1:1: the file has more than 1048576 bytes",
		strings.Repeat("k", 300) + ": 1":      `t.yaml:1:1: the key "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…" has more than 256 bytes`,
	} {
		if diff := cmp.Diff(want, mistakes(t, text)); diff != "" {
			t.Errorf("%.60q (-want +got):\n%s", text, diff)
		}
	}
}

func TestEachMistakeInASourceNamesItsPlaceItsReasonAndTheRightForm(t *testing.T) {
	t.Parallel()
	const base = `base_url: "http://a"`
	for text, want := range map[string]string{
		"'..': {cli: {command: x}}":                                                    `1:11: sources...: ".." is not a name: it needs 1 to 128 characters of A-Z a-z 0-9 _ . -`,
		"a b: {cli: {command: x}}":                                                     `1:11: sources.a b: "a b" is not a name: it needs 1 to 128 characters of A-Z a-z 0-9 _ . -`,
		"x: {}":                                                                        `1:11: sources.x: one of mcp, openapi, graphql, http and cli is missing; for example {mcp: {command: mcp-server-filesystem, args: ["."]}}`,
		"x: {mpc: {command: a}}":                                                       "1:15: sources.x.mpc: unknown key; did you mean mcp?",
		"x: {mcp: {command: a}, cli: {command: a}}":                                    "1:11: sources.x: it has more than one of mcp, openapi, graphql, http and cli; make a source of each",
		"x: {mcp: {}}":                                                                 `1:15: sources.x.mcp: it has neither command nor url; for example {command: mcp-server-filesystem, args: ["."]} or {url: "https://example.com/mcp"}`,
		"x: {mcp: {command: a, url: 'http://a'}}":                                      "1:15: sources.x.mcp: it has both command and url; make a source of each",
		"x: {mcp: {url: 'a.example/mcp'}}":                                             "1:26: sources.x.mcp.url: it is not an http or https URL; for example https://example.com/mcp",
		"x: {mcp: {url: 'http://a', args: [b]}}":                                       "1:38: sources.x.mcp.args: it is only for command; remove it",
		"x: {mcp: {command: a, headers: {A: b}}}":                                      "1:33: sources.x.mcp.headers: it is only for url; remove it",
		"x: {mcp: {command: a, env: {A=B: c}}}":                                        `1:44: sources.x.mcp.env.A=B: "A=B" is not the name of a variable; for example GITHUB_TOKEN`,
		"x: {mcp: {command: a, env: {A: secret://b}}}":                                 `1:42: sources.x.mcp.env.A: "secret://b" is not a reference to a secret: it needs a scope and a name of 1 to 128 characters of A-Z a-z 0-9 _ . -, without . or - at the beginning; for example secret://github/token`,
		"x: {mcp: {command: a, env: {A: }}}":                                           `1:39: sources.x.mcp.env.A: it has no value; for an empty text write ""`,
		"x: {mcp: {url: 'http://a', headers: {A: 'Bearer secret://a b'}}}":             `1:51: sources.x.mcp.headers.A: "secret://a" is not a reference to a secret: it needs a scope and a name of 1 to 128 characters of A-Z a-z 0-9 _ . -, without . or - at the beginning; for example secret://github/token`,
		"x: {mcp: {url: 'http://a', headers: {A b: c}}}":                               `1:53: sources.x.mcp.headers.A b: "A b" is not the name of a header; for example Authorization`,
		`x: {mcp: {url: 'http://a', headers: {A: "b\nc"}}}`:                            "1:51: sources.x.mcp.headers.A: a header must be one line",
		"x: {mcp: {url: 'http://a', headers: {host: b}}}":                              "1:54: sources.x.mcp.headers.host: the header Host is set by the URL; remove it",
		"x: {cli: {command: a}, tools: {include: [a b]}}":                              `1:52: sources.x.tools.include[0]: "a b" is not a pattern of names: it has characters besides A-Z a-z 0-9 _ . - *; for example create_*`,
		"x: {openapi: {}}":                                                             "1:15: sources.x.openapi: spec is missing; for example {spec: petstore.json}",
		"x: {openapi: {spec: a, auth: {k: 'env://1'}}}":                                `1:44: sources.x.openapi.auth.k: "env://1" is not a reference to a secret: a variable has letters, digits and _, and no digit first; for example env://GITHUB_TOKEN`,
		"x: {cli: {args: [a]}}":                                                        "1:15: sources.x.cli: command is missing; for example {command: git}",
		"x: {cli: {command: git, tools: [--help]}}":                                    `1:43: sources.x.cli.tools[0]: "--help" is not a sub-command; for example status or "remote add"`,
		"x: {http: {tools: [{name: a}]}}":                                              `1:15: sources.x.http: base_url is missing; for example {base_url: "https://api.example.com/tools", tools: [{name: forecast}]}`,
		"x: {http: {" + base + "}}":                                                    "1:15: sources.x.http: it has no tools; for example tools: [{name: forecast, input_schema: {type: object}}]",
		"code: {mcp: {command: a}}":                                                    `1:11: sources.code: the namespace "code" is reserved: it is kept for Toolroom's own tools; call the source code-server`,
		"run-chain: {mcp: {command: a}}":                                               `1:11: sources.run-chain: the namespace "run-chain" is reserved: programs have a function of Toolroom by that name; call the source run-chain-server`,
		"x: {http: {" + base + ", form: rnu, tools: [{name: a}]}}":                     `1:50: sources.x.http.form: "rnu" is not one of path, run; did you mean run?`,
		"x: {http: {" + base + ", tools: [{title: a}]}}":                               "1:52: sources.x.http.tools[0]: name is missing; for example {name: forecast}",
		"x: {http: {" + base + ", tools: [{name: a}, {name: a}]}}":                     `1:70: sources.x.http.tools[1].name: "a" is the name of tools[0] too`,
		"x: {http: {" + base + ", tools: [{name: a, method: get}]}}":                   `1:70: sources.x.http.tools[0].method: "get" is not one of GET, POST, PUT, PATCH, DELETE, HEAD; did you mean GET?`,
		"x: {http: {" + base + ", tools: [{name: a, path: b}]}}":                       `1:68: sources.x.http.tools[0].path: a path begins with /; write "/b"`,
		"x: {http: {" + base + ", tools: [{name: a, guarantee: saf}]}}":                `1:73: sources.x.http.tools[0].guarantee: "saf" is not one of safe, keyed, never; did you mean safe?`,
		"x: {http: {" + base + ", tools: [{name: a, result: b}]}}":                     `1:70: sources.x.http.tools[0].result: "b" is not a JSON pointer; for example /data/items`,
		"x: {http: {" + base + ", tools: [{name: a, hints: {read_only: yes}}]}}":       `1:81: sources.x.http.tools[0].hints.read_only: want true or false, got "yes"`,
		"x: {http: {" + base + ", tools: [{name: a, input_schema: [a]}]}}":             "1:62: sources.x.http.tools[0].input_schema: a schema is an object; for example {type: object}",
		"x: {http: {" + base + ", tools: [{name: a, input_schema: {type: string}}]}}":  `1:62: sources.x.http.tools[0].input_schema: the schema cannot be used: it takes no JSON object, and arguments are one: write {"type": "object", "properties": {…}}`,
		"x: {http: {" + base + ", tools: [{name: a, output_schema: {$ref: b.json}}]}}": `1:62: sources.x.http.tools[0].output_schema: the schema cannot be used: schema: reference to "toolroom:///b.json", which is outside the schema and not fetched: put the definition under $defs and refer to it as #/$defs/NAME`,
		"x: {http: {" + base + ", tools: [{name: a, input_schema: {a: .nan}}]}}":       `1:80: sources.x.http.tools[0].input_schema: ".nan" is not a value of JSON; quote it to make it a text`,
		"x: {http: {" + base + ", tools: [{name: a, input_schema: {a: 1, a: 2}}]}}":    "1:83: sources.x.http.tools[0].input_schema.a: duplicate key, first in line 1; remove one",
	} {
		if diff := cmp.Diff("t.yaml:"+want, mistakes(t, "sources: {"+text+"}")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestAValueThatMayBeASecretIsNotShown(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"store: {url: 'mysql://u:hunter2@h'}",
		"sources: {x: {mcp: {url: 'ftp://u:hunter2@h'}}}",
		"sources: {x: {mcp: {url: 'http://a', headers: {A: 'hunter2 secret://a'}}}}",
		"sources: {x: {mcp: {command: a, env: {A: \"hunter2\\0\"}}}}",
	} {
		if got := mistakes(t, text); got == "" || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestHostileTextsAreRefusedQuickly(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	var unknown strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&unknown, "key%d: 1\n", i)
	}
	for name, text := range map[string]string{
		"aliases":      bomb,
		"deep flow":    strings.Repeat("[", 500_000),
		"deep maps":    strings.Repeat("{a: ", 200_000),
		"deep blocks":  strings.Repeat("- ", 500_000),
		"deep schema":  "sources: {x: {http: {tools: [{input_schema: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}]}}}",
		"unknown keys": unknown.String(),
		"self alias":   "server: &a {listen: *a}",
	} {
		_, err := config.Parse("t.yaml", []byte(text))
		var all *config.Errors
		if !errors.As(err, &all) || len(all.Problems) > 100 {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, unit := range []string{`[`, `{a: `, `- `, `{"a":`, `? `, `- - `} { // nested deep
		f.Add([]byte(strings.Repeat(unit, 20_000)))
	}
	f.Add([]byte(promised))
	f.Add([]byte("tools: {alow: &a [*a], deny: x}\nlimits: {timeout: 3}\n"))
	f.Add([]byte("sources: {x: {http: {tools: [{name: a, input_schema: {a: 0x1F, b: [.5, ~]}}]}}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse("t.yaml", text)
		var all *config.Errors
		switch {
		case err == nil && c == nil:
			t.Error("neither a config nor an error")
		case err != nil && (!errors.As(err, &all) || len(all.Problems) == 0):
			t.Errorf("%T: %v", err, err)
		case err != nil:
			for _, p := range all.Problems {
				if p.Line < 1 || p.Column < 1 || p.Reason == "" {
					t.Errorf("%+v", p)
				}
			}
		}
	})
}
