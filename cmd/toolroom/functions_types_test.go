package main

import (
	"slices"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestSchemasComeFromTheTypesOfTypeScript(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	const declarations = `
enum Level { Low, High = 5, Most }
const COLOURS = ["red", "blue"] as const;
type Colour = (typeof COLOURS)[number];
interface Base { id: string }
/** A point. */
interface Point extends Base {
  /** Across. @minimum 0 */
  x: number;
  y?: number | null;
}
type Node = { value: number; next?: Node };
type Pair<T, U = T> = { a: T; b: U };
type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
`
	for of, want := range map[string]string{
		"number":                            `{"type":"number"}`,
		"bigint":                            `{"type":"integer"}`,
		"string | null":                     `{"type":["string","null"]}`,
		"any":                               `{}`,
		"'a' | 'b' | null":                  `{"enum":["a","b",null]}`,
		"1 | 'x' | string[]":                `{"anyOf":[{"enum":[1,"x"]},{"type":"array","items":{"type":"string"}}]}`,
		"true | false":                      `{"type":"boolean"}`,
		"Level":                             `{"enum":[0,5,6]}`,
		"Level.High":                        `{"const":5}`,
		"Colour":                            `{"enum":["red","blue"],"type":"string"}`,
		"Point":                             `{"type":"object","properties":{"id":{"type":"string"},"x":{"type":"number","description":"Across.","minimum":0},"y":{"type":["number","null"]}},"required":["id","x"],"additionalProperties":false,"description":"A point."}`,
		"Pick<Point, 'id'>":                 `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false,"description":"A point."}`,
		"Partial<Base>":                     `{"type":"object","properties":{"id":{"type":"string"}},"required":[],"additionalProperties":false}`,
		"keyof Base":                        `{"type":"string","const":"id"}`,
		"Base['id']":                        `{"type":"string"}`,
		"Pair<number>":                      `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"],"additionalProperties":false}`,
		"Base & {n: number}":                `{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"number"}},"required":["id","n"],"additionalProperties":false}`,
		"Record<string, number>":            `{"type":"object","additionalProperties":{"type":"number"}}`,
		"Record<'a' | 'b', 1>":              `{"type":"object","properties":{"a":{"const":1},"b":{"const":1}},"required":["a","b"],"additionalProperties":false}`,
		"{[K in 'a' | 'b']?: K}":            `{"type":"object","properties":{"a":{"const":"a"},"b":{"const":"b"}},"required":[],"additionalProperties":false}`,
		"[string, number?]":                 `{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}],"minItems":1,"maxItems":2}`,
		"readonly string[]":                 `{"type":"array","items":{"type":"string"}}`,
		"Set<number>":                       `{"type":"array","items":{"type":"number"},"uniqueItems":true}`,
		"Map<string, Date>":                 `{"type":"object","additionalProperties":{"type":"string","format":"date-time"}}`,
		"Uint8Array":                        `{"type":"string","contentEncoding":"base64"}`,
		"Exclude<'a' | 'b' | 'c', 'a'>":     `{"enum":["b","c"],"type":"string"}`,
		"{[key: string]: boolean; a: true}": `{"type":"object","properties":{"a":{"const":true}},"required":["a"],"additionalProperties":{"type":"boolean"}}`,
	} {
		pushed, err := w.push("f.ts", declarations+"export function f(p: "+of+") {}\n")
		if err != nil {
			t.Errorf("%s: %v", of, err)
			continue
		}
		if got, want := string(pushed[0].Spec.InputSchema), `{"type":"object","properties":{"p":`+want+`},"required":["p"],"additionalProperties":false}`; got != want {
			t.Errorf("%s:\n%s, want\n%s", of, got, want)
		}
	}
	for of, want := range map[string]string{
		"Node": `{"type":"object","properties":{"p":{"$ref":"#/$defs/Node"}},"required":["p"],"additionalProperties":false,"$defs":{"Node":{"type":"object","properties":{"value":{"type":"number"},"next":{"$ref":"#/$defs/Node"}},"required":["value"],"additionalProperties":false}}}`,
		"Json": `{"type":"object","properties":{"p":{"$ref":"#/$defs/Json"}},"required":["p"],"additionalProperties":false,"$defs":{"Json":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"null"},{"type":"array","items":{"$ref":"#/$defs/Json"}},{"type":"object","properties":{},"required":[],"additionalProperties":{"$ref":"#/$defs/Json"}}]}}}`,
	} {
		pushed, err := w.push("f.ts", declarations+"export function f(p: "+of+") {}\n")
		if err != nil {
			t.Errorf("%s: %v", of, err)
		} else if got := string(pushed[0].Spec.InputSchema); got != want {
			t.Errorf("%s:\n%s, want\n%s", of, got, want)
		}
	}
}

func TestAFunctionInTypeScriptGetsObjectsOfItsTypes(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("f.ts", `
interface Row { at: Date; tags: Set<string>; child?: Row }
export function kinds(n: number, i: bigint, d: Date, b: Uint8Array, s: Set<number>, m: Map<string, Date>, o: Date | null = null): string {
  return [typeof n, typeof i, d instanceof Date, b instanceof Uint8Array && b.length, s instanceof Set && s.size, m.get("a") instanceof Date, o].join(" ");
}
export const rows = (list: Row[]): number => list.filter((r) => r.at instanceof Date && r.tags.has("a") && r.child!.at.getUTCFullYear() === 2020).length;
export function all({a, b = 2, ...rest}: {a: number; b?: number; [key: string]: number}): number {
  return a + b + Object.values(rest).reduce((x, y) => x + y, 0);
}
export default function main(x?: number) { return x === undefined ? "none" : x; }
`)
	w.wantValue("fn:kinds", `{"n":1,"i":2,"d":"2020-01-01T00:00:00Z","b":"AAEC","s":[1,2],"m":{"a":"2020-01-01T00:00:00Z"}}`, `"number bigint true 3 2 true "`)
	w.wantValue("fn:rows", `{"list":[{"at":"2020-01-01T00:00:00Z","tags":["a"],"child":{"at":"2020-01-01T00:00:00Z","tags":[]}}]}`, "1")
	w.wantValue("fn:all", `{"a":1}`, "3")
	w.wantValue("fn:all", `{"a":1,"b":1,"c":5}`, "7")
	w.wantValue("fn:f", `{}`, `"none"`)
}

func TestCodeOfAToolWithEgressIsInspectedWithoutANetwork(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	if _, err := w.push("f.ts", "// toolroom:\n//   egress: [example.com]\nexport function f(x: number): number { return x }\n"); err != nil {
		t.Error(err)
	}
	if _, err := w.push("g.py", "# /// script\n# [tool.toolroom]\n# egress = ['example.com']\n# ///\ndef g(x: int) -> int:\n    return x\n"); err != nil {
		t.Error(err)
	}
}

func TestRulesAboutHostsCountForTheHostsThatAFunctionDeclares(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "tools: {deny: [\"effect:host:evil.example\"]}\n")
	serve := func(name, egress string) {
		w.serve(name+".py", "# /// script\n# [tool.toolroom]\n# egress = ["+egress+"]\n# ///\ndef "+name+"() -> int:\n    return 1\n")
	}
	serve("evil", "'good.example', 'evil.example:443'")
	serve("any", "'*.example'")
	serve("good", "'good.example'")
	w.serve("none.py", "def none() -> int:\n    return 1\n")
	for tool, denied := range map[string]bool{"fn:evil": true, "fn:any": true, "fn:good": false, "fn:none": false} {
		r := w.Run(t.Context(), toolroom.Call{Tool: tool})
		if got := r.Error != nil && r.Error.Code == toolroom.CodeDenied; got != denied {
			t.Errorf("%s: denied %t, %v", tool, got, r.Error)
		}
		receipt, err := w.Receipt(t.Context(), r.Call)
		if err != nil {
			t.Fatal(err)
		}
		if sends := slices.ContainsFunc(receipt.Expected, func(e toolroom.Effect) bool { return e.Kind == toolroom.EffectSend }); sends != (tool != "fn:none") {
			t.Errorf("%s: effects %v", tool, receipt.Expected)
		}
	}
}

func TestAFunctionRunsInTheProfileThatItDeclares(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("usual.sh", "#!/bin/sh\n# toolroom:\n#   parameters: {}\necho 1\n")
	w.serve("strict.sh", "#!/bin/sh\n# toolroom:\n#   parameters: {}\n#   profile: hardened\necho 1\n")
	w.serve("strictpy.py", "# /// script\n# [tool.toolroom]\n# profile = 'hardened'\n# ///\ndef strictpy() -> int:\n    return 1\n")
	for tool, want := range map[string]string{"fn:usual": "standard", "fn:strict": "hardened", "fn:strictpy": "hardened"} {
		r := w.Run(t.Context(), toolroom.Call{Tool: tool})
		if r.Error != nil || r.Execution == nil || r.Execution.Profile != want {
			t.Errorf("%s: %v in %+v, want the profile %s", tool, r.Error, r.Execution, want)
		}
	}
}
