package app_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
)

func TestAReloadAppliesLimitsAndNamesWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := open(t, app.Options{Home: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	c, err := config.Parse("toolroom.yaml", []byte(`
limits: {timeout: 7s, approval_wait: 3s, output_bytes: 1000}
server: {listen: "127.0.0.1:1"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(c); err != nil {
		t.Fatal(err)
	}
	if l := r.Parts().Runner.Limits(); l.Timeout != 7*time.Second || l.ApprovalWait != 3*time.Second || l.OutputBytes != 1000 {
		t.Errorf("the limits are %+v", l)
	}
	if !strings.Contains(log.String(), "server.listen") || strings.Contains(log.String(), "limits.") {
		t.Errorf("the log is %s", log.String())
	}
}

func TestAClosedRoomIsNotReloaded(t *testing.T) {
	t.Parallel()
	r := open(t, app.Options{Home: t.TempDir()})
	c := r.Config()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(c); toolroom.CodeOf(err) != toolroom.CodeUnsupported {
		t.Errorf("a reload after the end starts what nobody closes: %v", err)
	}
}
