package remote_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/sandbox/remote"
)

var signedSecret = []byte("0123456789abcdef0123456789abcdef")

func TestARequestIsAcceptedOnceWhileItsSignatureIsValid(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now := start
	v := remote.NewVerifier([]remote.SigningKey{{Name: "ann", Secret: signedSecret}}, func() time.Time { return now })
	r := httptest.NewRequest(http.MethodPost, "/v1/x?y=1", nil)
	// The sender's clock is nearly a window ahead, so the request is valid longest.
	remote.Sign(r, []byte("body"), signedSecret, start.Add(remote.SignatureWindow-time.Second))
	if name, err := v.Verify(r, []byte("body")); name != "ann" || err != nil {
		t.Fatalf("got %q, %v", name, err)
	}
	for past := time.Duration(0); past < 3*remote.SignatureWindow; past += 10 * time.Second {
		now = start.Add(past)
		// Other requests make the verifier discard old nonces.
		other := httptest.NewRequest(http.MethodGet, "/", nil)
		remote.Sign(other, nil, signedSecret, now)
		if _, err := v.Verify(other, nil); err != nil {
			t.Fatalf("after %s another request was refused: %v", past, err)
		}
		_, err := v.Verify(r, []byte("body"))
		var refusal *remote.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != remote.ReasonReplayed && refusal.Reason != remote.ReasonSkewed {
			t.Fatalf("after %s the replay returned %v", past, err)
		}
	}
}

func TestAWrongClockIsReportedOnlyToSendersThatKnowTheSecret(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	v := remote.NewVerifier([]remote.SigningKey{{Name: "bob", Secret: []byte("another secret of thirty-two chars")}, {Name: "ann", Secret: signedSecret}}, func() time.Time { return now })
	for _, tt := range []struct {
		name   string
		secret string
		skew   time.Duration
		reason remote.Reason
		words  string
	}{
		{"known, ahead", string(signedSecret), 7 * time.Minute, remote.ReasonSkewed, "7m0s apart"},
		{"known, behind", string(signedSecret), -7 * time.Minute, remote.ReasonSkewed, "7m0s apart"},
		{"known, an age behind", string(signedSecret), -200 * 365 * 24 * time.Hour, remote.ReasonSkewed, "apart"},
		{"unknown", "wrong", -7 * time.Minute, remote.ReasonWrong, "matches no secret"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			remote.Sign(r, nil, []byte(tt.secret), now.Add(tt.skew))
			_, err := v.Verify(r, nil)
			var refusal *remote.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != tt.reason || !strings.Contains(err.Error(), tt.words) {
				t.Errorf("got %v", err)
			}
			if tt.reason == remote.ReasonSkewed && (refusal.Skew > 0) != (tt.skew > 0) {
				t.Errorf("the clock is %s ahead", refusal.Skew)
			}
		})
	}
}

func FuzzVerifyAcceptsNoForgery(f *testing.F) {
	f.Add("1763726400000", strings.Repeat("0", 32), "v1="+strings.Repeat("0", 64), "/v1/probe", []byte("x"))
	f.Add("", "", "", "/", []byte(nil))
	f.Fuzz(func(t *testing.T, timestamp, nonce, signature, path string, body []byte) {
		v := remote.NewVerifier([]remote.SigningKey{{Name: "ann", Secret: signedSecret}}, nil)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		r.Header = http.Header{remote.HeaderTimestamp: {timestamp}, remote.HeaderNonce: {nonce}, remote.HeaderSignature: {signature}}
		if name, err := v.Verify(r, body); err == nil {
			t.Errorf("accepted as from %s", name)
		}
	})
}
