package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// sink is a transport that takes every message and answers none.
type sink struct{ sent chan struct{} }

func (k *sink) attach(*Client) {}
func (k *sink) ready()         {}
func (k *sink) close()         {}

func (k *sink) send(ctx context.Context, _ *outgoing) error {
	select {
	case k.sent <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestAnsweredQuestionsLeaveNothing(t *testing.T) {
	t.Parallel()
	k := &sink{sent: make(chan struct{})}
	s := newClient(k, ClientHandler{})
	defer s.Close()
	for i := range 500 {
		if err := s.receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i), 0); err != nil {
			t.Fatal(err)
		}
		<-k.sent
	}
	for range 100 {
		if s.work.Wait(); reflect.ValueOf(s.ctx).Elem().FieldByName("children").Len() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d contexts are left", reflect.ValueOf(s.ctx).Elem().FieldByName("children").Len())
}

func TestAServerThatFloodsWithQuestionsIsCutOff(t *testing.T) {
	t.Parallel()
	k := &sink{sent: make(chan struct{}, 1)}
	s := newClient(k, ClientHandler{Asked: func(ctx context.Context, _ any, _ Question) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	defer s.Close()
	for i := range 3 * maxQuestions {
		_ = s.receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"elicitation/create"}`, i%2), 0)
	}
	if !s.HasEnded() || !errors.Is(s.Err(), errTooManyQuestions) {
		t.Errorf("over %v, %v", s.HasEnded(), s.Err())
	}
}
