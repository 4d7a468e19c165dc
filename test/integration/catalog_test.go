//go:build integration

package integration

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tinyServer is an MCP server in a package without dependencies.
const tinyServer = `#!/usr/bin/env node
const lines = require("readline").createInterface({input: process.stdin})
lines.on("line", (line) => {
  const {id, method, params} = JSON.parse(line)
  if (id === undefined) return
  const answer = {
    initialize: () => ({protocolVersion: params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: "tiny", version: "1"}}),
    "tools/list": () => ({tools: [{name: "key", inputSchema: {type: "object"}}]}),
    "tools/call": () => ({content: [{type: "text", text: "the key has " + process.env.TINY_KEY.length + " letters, the home is " + process.env.HOME}]}),
  }[method]
  console.log(JSON.stringify(answer ? {jsonrpc: "2.0", id, result: answer()} : {jsonrpc: "2.0", id, error: {code: -32601, message: "no " + method}}))
})
`

// npmRegistry serves one package at an address that is not the loopback, for which Node asks
// no proxy.
func npmRegistry(t *testing.T) string {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{"package.json": `{"name": "tiny-mcp", "version": "1.0.0", "bin": {"tiny-mcp": "tiny.js"}}`, "tiny.js": tinyServer} {
		if err := w.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(text))
	}
	w.Close()
	z.Close()
	sum := sha512.Sum512(packed.Bytes())
	var address string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tiny-mcp":
			fmt.Fprintf(w, `{"name": "tiny-mcp", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "tiny-mcp", "version": "1.0.0", "bin": {"tiny-mcp": "tiny.js"},
				"dist": {"tarball": "%s/tiny-mcp-1.0.0.tgz", "integrity": "sha512-%s"}}}}`, address, base64.StdEncoding.EncodeToString(sum[:]))
		case "/tiny-mcp-1.0.0.tgz":
			w.Write(packed.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	ip := ""
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			ip = n.IP.String()
		}
	}
	if ip == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("this machine has no address besides the loopback")
		}
		t.Skip("this machine has no address besides the loopback")
	}
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	address = s.URL
	return address
}

func TestAServerOfAFetchedCatalogueIsAddedByName(t *testing.T) {
	if _, err := exec.LookPath("npx"); err != nil {
		t.Fatal("npx is not installed")
	}
	registry := npmRegistry(t)
	catalogue := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"servers": [{"server": {"name": "com.example/tiny-mcp", "description": "Tells its key.", "packages": [
			{"registryType": "npm", "identifier": "tiny-mcp", "version": "1.0.0", "transport": {"type": "stdio"},
			 "environmentVariables": [{"name": "TINY_KEY", "description": "a key", "isRequired": true, "isSecret": true}]}]}}]}`)
	}))
	t.Cleanup(catalogue.Close)
	r := bareRoom(t)
	// As npm itself has it: the home folder of these tests is that of the room.
	if err := os.WriteFile(filepath.Join(r.dir, ".npmrc"), []byte("registry="+registry+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "toolroom.yaml"), []byte("expose: {mode: direct}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := r.toolroom(0, "sources", "catalog", "update", "--from", catalogue.URL).stdout
	if !strings.Contains(out, "1 new") || !strings.Contains(out, "sha256 ") {
		t.Errorf("the update says %q", out)
	}
	if found := r.toolroom(0, "sources", "catalog", "tiny", "--json").stdout; !strings.Contains(found, "com.example/tiny-mcp") {
		t.Errorf("the search finds %s", found)
	}
	refused := r.toolroom(5, "sources", "add", "tiny")
	if !strings.Contains(refused.stderr, "toolroom secret set tiny/tiny_key") {
		t.Errorf("without the secret: %s", refused.stderr)
	}
	added := r.toolroom(0, "sources", "add", "tiny", "--env", "TINY_KEY=abcdefgh")
	if !strings.Contains(added.stdout+added.stderr, "tiny works: 1 tool") {
		t.Fatalf("it was added: %s %s", added.stdout, added.stderr)
	}
	if got := r.toolroom(0, "call", "tiny:key").stdout; got != "the key has 8 letters, the home is /home/source\n" {
		t.Errorf("the call answered %q", got)
	}
	var list []struct{ Name, Sandbox string }
	if err := json.Unmarshal([]byte(r.toolroom(0, "sources", "list", "--json").stdout), &list); err != nil || len(list) != 1 || list[0].Sandbox != "process, standard" {
		t.Errorf("the sources are %+v, %v", list, err)
	}
}
