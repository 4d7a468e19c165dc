package server

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/app"
)

// A switch of expose.mode in the file reaches a client that is connected.
func TestASwitchOfTheExposeModeIsToldToClients(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/toolroom.yaml"
	if err := writeFile(file, "expose: {mode: direct}\n"); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{ConfigFile: file})
	if err != nil {
		t.Fatal(err)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- ServeStdio(ctx, r, in, out, Options{ConfigFile: file, Version: "test", Log: slog.New(slog.DiscardHandler)})
	}()
	t.Cleanup(func() {
		cancel()
		toServer.Close()
		<-ended
		r.Close()
	})
	lines := make(chan string, 100)
	go func() {
		for s := bufio.NewReader(fromServer); ; {
			line, err := s.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	wait := func(part string) string {
		t.Helper()
		for {
			select {
			case line := <-lines:
				if strings.Contains(line, part) {
					return line
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("no line with %s", part)
			}
		}
	}
	send := func(message string) {
		if _, err := io.WriteString(toServer, message+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	wait(`"id":1`)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if list := wait(`"id":2`); strings.Contains(list, `"name":"search_tools"`) {
		t.Errorf("in mode direct the list is %s", list)
	}
	if err := writeFile(file, "expose: {mode: search}\n"); err != nil {
		t.Fatal(err)
	}
	wait(`notifications/tools/list_changed`)
	send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	if list := wait(`"id":3`); !strings.Contains(list, `"name":"search_tools"`) {
		t.Errorf("in mode search the list is %s", list)
	}
}
