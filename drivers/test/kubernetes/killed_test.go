//go:build integration

package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/drivers/kubernetes"
	"github.com/toolroom/toolroom/sandbox"
)

// victimEnv is the environment variable that makes this binary a Toolroom that is killed
// during a run. Its value are the driver's options.
const victimEnv = "TOOLROOM_TEST_VICTIM"

// speaks prints what a program prints.
type speaks struct{ bridge.Handler }

func (speaks) Print(_, text string) { fmt.Print(text) }

// live runs a program that leaves a daemon behind, and does not end.
func live(text string) error {
	var o kubernetes.Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	instance, err := kubernetes.New(o).Start(context.Background(), sandbox.Spec{Run: "victim", Profile: sandbox.Standard})
	if err != nil {
		return err
	}
	conn, err := bridge.Accept(context.Background(), instance.Stream(), bridge.Options{})
	if err != nil {
		return err
	}
	_, err = conn.Run(context.Background(), bridge.Program{Language: "shell", Source: "setsid sleep 3000 >/dev/null 2>&1 & \n echo it runs; sleep 3000"}, speaks{})
	return err
}

// What a program leaves behind must not keep a Pod alive until its deadline.
func TestAPodEndsSoonAfterItsToolroomWasKilled(t *testing.T) {
	t.Parallel()
	o := namespace(t)
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(self)
	victim.Env = append(os.Environ(), victimEnv+"="+string(text))
	victim.Stderr = os.Stderr
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	_ = victim.Process.Kill()
	_ = victim.Wait()
	if line != "it runs\n" {
		t.Fatalf("the victim said %q", line)
	}
	began := time.Now()
	for {
		list := pods(t, o.Namespace)
		if len(list) != 1 {
			t.Fatalf("there are %d Pods", len(list))
		}
		if phase := list[0].Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			t.Logf("the Pod ended %s after its Toolroom", time.Since(began).Round(time.Second))
			break
		}
		if time.Since(began) > 5*time.Minute { // its deadline is after an hour
			t.Fatal("the Pod still runs")
		}
		time.Sleep(time.Second)
	}
	left, err := kubernetes.New(o).Clean(t.Context(), false)
	if err != nil || len(left) != 1 || left[0].Error != "" {
		t.Errorf("cleaned: %+v, %v", left, err)
	}
}
