//go:build integration

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/builtin/memory"
)

const accessKey, secretKey = "testaccess", "testsecret123"

// servers are the commands of real servers.
var servers = map[string]func(address, dir string) *exec.Cmd{
	"minio": func(address, dir string) *exec.Cmd {
		cmd := exec.Command("minio", "server", "--address", address, "--quiet", dir)
		cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+accessKey, "MINIO_ROOT_PASSWORD="+secretKey, "MINIO_BROWSER=off", "HOME="+dir)
		return cmd
	},
	"versitygw": func(address, dir string) *exec.Cmd {
		cmd := exec.Command("versitygw", "--port", address, "posix", dir)
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
		return cmd
	},
}

// startServer starts a server and returns its address.
func startServer(t *testing.T, name string) *url.URL {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err, "; make s3 builds it")
		}
		t.Skip(err, "; make s3 builds it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd := servers[name](address, t.TempDir())
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 600 {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return &url.URL{Scheme: "http", Host: address}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s did not start: %s", name, &output)
	return nil
}

// breaking is a transport that breaks requests.
type breaking struct{ at func(r *http.Request) bool }

func (b *breaking) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.at != nil && b.at(r) {
		return nil, errors.New("the connection broke")
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestRealServers(t *testing.T) {
	for name := range servers {
		t.Run(name, func(t *testing.T) {
			testRealServer(t, startServer(t, name))
		})
	}
}

func testRealServer(t *testing.T, endpoint *url.URL) {
	keys := Keys{Access: accessKey, Secret: secretKey}
	transport := &breaking{}
	c := &Client{Endpoint: endpoint, Region: "us-east-1", Transport: transport, Wait: 100 * time.Millisecond, Keys: func(context.Context) (Keys, error) { return keys, nil }}
	if _, err := c.do(t.Context(), request{method: http.MethodPut, bucket: "docs"}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	folders, err := folder.Open([]string{dir}, folder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	notes := memory.Open(filepath.Join(t.TempDir(), "memory"))
	p := Pack(Options{Client: c, Bucket: "docs", Folders: folders, Save: notes.Save, Has: notes.Has, State: t.TempDir()})
	if problem := p.Check(t.Context()); problem != nil {
		t.Error(problem)
	}

	data := bytes.Repeat([]byte("0123456789abcdef"), 27<<16)
	if err := os.WriteFile(filepath.Join(dir, "big file.bin"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	sent := map[string]int{}
	transport.at = func(r *http.Request) bool {
		n := r.URL.Query().Get("partNumber")
		if n != "" && r.Method == http.MethodPut {
			sent[n]++
		}
		return n == "3"
	}
	if _, err := call(t, p, "minio:share", map[string]any{"path": "big file.bin"}); toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable {
		t.Fatalf("a broken upload: %v", err)
	}
	transport.at = func(r *http.Request) bool {
		if n := r.URL.Query().Get("partNumber"); n != "" && r.Method == http.MethodPut {
			sent[n]++
		}
		return false
	}
	value, err := call(t, p, "minio:share", map[string]any{"path": "big file.bin", "expires": 60})
	if err != nil || sent["1"] != 1 || sent["2"] != 1 || sent["4"] != 1 {
		t.Fatalf("%v; parts were sent %v times", err, sent)
	}
	link := strings.ReplaceAll(between(value, `"url":"`, `"`), `\u0026`, "&")
	response, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(response.Body)
	if closed := response.Body.Close(); err != nil || closed != nil || !bytes.Equal(got, data) {
		t.Errorf("the link gives %s, %d bytes, %v %.300s", response.Status, len(got), err, got)
	}
	if response, err = http.Get(strings.Replace(link, "X-Amz-Expires=60", "X-Amz-Expires=61", 1)); err != nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("a changed link: %v %v", response.Status, err)
	}

	for i, name := range []string{"a b/ü+1.txt", "a b/c%20d.txt", "a b/e&f=g.txt", "a b/'()!*.txt"} {
		u := &upload{Client: c, bucket: "docs", key: name, kind: "text/plain", from: strings.NewReader(fmt.Sprintf("document %d", i)), size: 10}
		if err := u.run(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, want := range []string{`"unchanged":0`, `"unchanged":4`} {
		value, err := call(t, p, "minio:sync", map[string]any{"prefix": "a b/"})
		if err != nil || !strings.Contains(value, want) || !strings.Contains(value, `"skipped":[]`) {
			t.Errorf("%s, %v; want %s", value, err, want)
		}
	}
	if _, err := call(t, p, "minio:ingest", map[string]any{"object_key": "none"}); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("a missing object: %v", err)
	}
	keys.Secret = "wrong"
	if _, err := call(t, p, "minio:ingest", map[string]any{"object_key": "none"}); toolroom.CodeOf(err) != toolroom.CodeUnauthenticated {
		t.Errorf("a wrong key: %v", err)
	}
}

func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}
