package gvisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
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
