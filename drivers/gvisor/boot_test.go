package gvisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolroom/toolroom/sandbox"
)

// runsc writes a program that stands for runsc, and returns its path.
func runsc(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runsc")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSandboxesBootAgainOnceTheirFolderIsThere(t *testing.T) {
	t.Parallel()
	work := filepath.Join(t.TempDir(), "work")
	d := New(Options{Program: runsc(t, ""), Work: work, Root: t.TempDir()})
	if err := d.boot(t.Context()); err == nil {
		t.Fatal("a sandbox boots without a folder")
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if err := d.boot(t.Context()); err != nil {
			t.Errorf("boot %d with a folder: %v", n, err)
		}
	}
}

func TestACallerWhoseTimeIsOverDoesNotWaitForTheBootOfAnother(t *testing.T) {
	t.Parallel()
	started := filepath.Join(t.TempDir(), "started")
	d := New(Options{Program: runsc(t, "touch "+started+"; exec sleep 30"), Work: t.TempDir(), Root: t.TempDir()})
	booting, end := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- d.boot(booting) }()
	for _, err := os.Stat(started); err != nil; _, err = os.Stat(started) {
		time.Sleep(time.Millisecond)
	}
	late, over := context.WithCancel(t.Context())
	over()
	second := make(chan error, 1)
	go func() { second <- d.boot(late) }()
	select {
	case err := <-second:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the second: %v", err)
		}
	case err := <-first:
		t.Fatalf("the second waits for the first: %v", err)
	}
	end()
	<-first
}

func TestACallerWhoseTimeIsOverDoesNotWaitForTheCheckpointOfAnother(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root restores sandboxes")
	}
	started := filepath.Join(t.TempDir(), "started")
	// It runs a sandbox in which no guest gets ready.
	d := New(Options{Program: runsc(t, `case "$*" in *" run "*) touch `+started+`; exec sleep 30;; esac`), Work: t.TempDir(), Root: t.TempDir(), Restore: true})
	d.program, d.tried = d.o.Program, true
	spec := sandbox.Spec{Guest: d.program}
	making, end := context.WithCancel(t.Context())
	if d.checkpointOf(making, spec) != nil {
		t.Fatal("there is a checkpoint of what was never started")
	}
	first := make(chan struct{})
	go func() { defer close(first); d.checkpointOf(making, spec) }()
	for _, err := os.Stat(started); err != nil; _, err = os.Stat(started) {
		time.Sleep(time.Millisecond)
	}
	late, over := context.WithCancel(t.Context())
	over()
	second := make(chan struct{})
	go func() { defer close(second); d.checkpointOf(late, spec) }()
	select {
	case <-second:
	case <-first:
		t.Error("the second waits for the first")
	}
	end()
	<-first
}
