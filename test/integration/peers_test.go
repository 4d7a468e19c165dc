//go:build integration

package integration

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
)

// githubSource returns the MCP server of GitHub with a fake of GitHub's API. The fake is a proxy, because
// the server drops the port of a configured address.
func (r *room) githubSource() object {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/api/v3/user" || req.Header.Get("Authorization") != "Bearer github-token" {
			http.NotFound(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"login": "ada", "id": 1, "name": "Ada Lovelace"}`))
	}))
	r.t.Cleanup(api.Close)
	return object{"mcp": object{
		"command": installedFile(r.t, "run: make peers", "bin", "github-mcp-server"),
		"args":    []string{"stdio", "--gh-host", "http://github.example"},
		"env":     object{"GITHUB_PERSONAL_ACCESS_TOKEN": "github-token", "HTTP_PROXY": api.URL},
	}}
}

// fastMCPPython returns the interpreter that has FastMCP.
func fastMCPPython(t *testing.T) string {
	return installedFile(t, "run: make peers", "test", "python", ".venv", "bin", "python")
}

func fastMCP(t *testing.T, transport string) []string {
	return []string{fastMCPPython(t), installedFile(t, "it is part of the repository", "test", "python", "server.py"), transport}
}

func stdioSource(command []string) object {
	return object{"mcp": object{"command": command[0], "args": command[1:]}}
}

// chromiumProgram returns the browser of this machine.
func chromiumProgram(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v; run: apt-get install --no-install-recommends chromium", err)
	}
	return path
}

// startPage serves a web page with the title and returns its address.
func (r *room) startPage(title string) string {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<title>" + title + "</title><h1>" + title + "</h1>"))
	}))
	r.t.Cleanup(web.Close)
	return web.URL
}

func (r *room) playwrightCommand(args ...string) []string {
	return append([]string{
		nodeProgram(r.t), npmProgram(r.t, "playwright-mcp"), "--headless", "--isolated", "--no-sandbox", "--executable-path", chromiumProgram(r.t),
	}, args...)
}

// startListening starts a program on a free port, which is also in its environment as PORT, and
// returns the address of path.
func (r *room) startListening(path string, command func(port string) []string) string {
	r.t.Helper()
	address := freeAddress(r.t)
	_, port, _ := net.SplitHostPort(address)
	args := command(port)
	c := r.command(r.t.Context(), args[0], args[1:]...)
	c.Env = append(c.Env, "PORT="+port)
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	eventually(r.t, args[0]+" takes requests", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return "http://" + address + path
}
