package cli_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli"
)

func TestWatchingShowsEachCallThatWaitsAsItComes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "toolroom.yaml")
	if err := os.WriteFile(config, []byte("tools: {confirm: [\"system:info\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(ctx context.Context, out io.Writer, args ...string) int {
		p := cli.Program{
			In: strings.NewReader(""), Out: out, Err: io.Discard,
			Home: filepath.Join(dir, "home"), Config: config, Dir: dir, UserConfig: dir, UserHome: dir, User: "ann", Version: "test", Open: app.Open,
		}
		return p.Run(ctx, args)
	}
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- command(ctx, write, "approve", "--watch")
		write.Close()
	}()
	lines := bufio.NewScanner(read)
	// Each call is another one, so each is another question.
	for _, agent := range []string{"first", "second"} {
		if code := command(t.Context(), io.Discard, "call", "system:info", "--no-wait", "--agent", agent); code != toolroom.ExitDenied {
			t.Fatalf("the call ended with %d", code)
		}
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), "apr_") || !strings.Contains(lines.Text(), "system:info") {
			t.Errorf("%s: it shows %q", agent, lines.Text())
		}
	}
	stop()
	if code := <-ended; code != toolroom.ExitCancelled {
		t.Errorf("it ended with %d", code)
	}
}
