package config

import (
	"strings"
	"testing"
)

func TestMistakesInSecretsAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`secrets: {key: {file: a, env: B}}`:                                                                     "more than one of file, env",
		`secrets: {stores: {a: {}}}`:                                                                            "one of vault",
		`secrets: {stores: {a: {vault: {address: "https://v"}}}}`:                                               "needs one of token",
		`secrets: {stores: {a: {vault: {address: "https://v", token: hunter22}}}}`:                              "it is not a reference",
		`secrets: {stores: {a: {vault: {address: "https://v", token: "env://T", own_path: users}}}}`:            "no {identity}",
		`secrets: {stores: {a: {command: {argv: ["{scope}"]}}}}`:                                                "the program is missing",
		`secrets: {stores: {a: {environment: {}}}}`:                                                             "the variables are missing",
		`secrets: {stores: {a: {kubernetes: {address: "http://k"}}}}`:                                           "not an https URL",
		`secrets: {scopes: {a: {store: b}}}`:                                                                    "unknown store",
		`secrets: {scopes: {a: {values: mine}}}`:                                                                "is not one of shared",
		`{secrets: {scopes: {a: {sources: [y]}}}, sources: {x: {mcp: {command: c, env: {A: "secret://a/b"}}}}}`: "does not list it",
		`{secrets: {scopes: {a: {values: own}}}, sources: {x: {mcp: {command: c, env: {A: "secret://a/b"}}}}}`:  "serves all callers",
		`sources: {x: {mcp: {command: c, args: ["--token", "secret://a/b"]}}}`:                                  "others can see",
		`sources: {x: {cli: {command: c, args: ["env://TOKEN"]}}}`:                                              "others can see",
	} {
		_, err := Parse("t.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
