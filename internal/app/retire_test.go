package app

import (
	"context"
	"log/slog"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

// slowList is a source whose list ends when it is told to.
type slowList struct {
	source.Source
	began, end chan struct{}
}

func (s *slowList) Tools(context.Context) ([]toolroom.Tool, error) {
	close(s.began)
	<-s.end // a server that does not look at the context
	return []toolroom.Tool{{ID: toolroom.MustParseID("src:old"), Source: toolroom.SourceMCP}}, nil
}

func (s *slowList) Close() error { return nil }

func TestAListThatEndsAfterTheReloadDoesNotComeBack(t *testing.T) {
	t.Parallel()
	cat := catalog.New(catalog.Options{})
	slow := &slowList{began: make(chan struct{}), end: make(chan struct{})}
	old := newManager(&sourceManager{
		name: "src", src: slow, catalog: cat, redactor: &secret.Redactor{}, log: slog.New(slog.DiscardHandler), library: &catalog.Library{},
	})
	listed := make(chan error, 1)
	go func() { listed <- old.list(context.Background()) }()
	<-slow.began
	old.retire()
	fresh := toolroom.Tool{ID: toolroom.MustParseID("src:new"), Source: toolroom.SourceMCP}
	if err := cat.SetProvider("src", &panicking{}, []toolroom.Tool{fresh}); err != nil {
		t.Fatal(err)
	}
	close(slow.end)
	if err := <-listed; err == nil {
		t.Error("the list of a retired source counted")
	}
	old.setTools([]toolroom.Tool{{ID: toolroom.MustParseID("src:older"), Source: toolroom.SourceMCP}})
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if all := cat.All(func(*catalog.Entry) bool { return true }); len(all) != 1 || all[0].Tool.ID != fresh.ID {
		t.Errorf("the catalog has %v", all)
	}
}
