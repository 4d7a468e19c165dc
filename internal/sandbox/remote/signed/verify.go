package signed

import (
	"crypto/hmac"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Key is a secret and the name of who signs with it.
type Key struct {
	Name   string
	Secret []byte
}

// Reason says why a request was refused.
type Reason string

// The reasons.
const (
	Unsigned Reason = "unsigned" // a header is missing or malformed
	Wrong    Reason = "wrong_signature"
	Skewed   Reason = "clock_skew" // well signed, at another time than now
	Replayed Reason = "replayed"   // seen before
	// Early is a request that was signed before the verifier began to remember.
	// Signing it again helps.
	Early Reason = "signed_too_early"
	// Busy says that no more requests can be remembered for now.
	Busy Reason = "too_many_requests"
)

// Refusal is the error of a request that is not taken.
type Refusal struct {
	Reason Reason
	// Skew is how far the sender's clock is ahead of ours, where that is the
	// reason; negative when it is behind.
	Skew time.Duration
}

func (r *Refusal) Error() string {
	switch r.Reason {
	case Unsigned:
		return "the request is not signed"
	case Wrong:
		return "the signature is not that of any secret known here"
	case Skewed:
		return fmt.Sprintf("the request is signed with a known secret, but its clock is %s apart from the one here; %s is allowed", r.Skew.Abs().Round(time.Second), Window)
	case Replayed:
		return "the request has been seen before"
	case Early:
		return "the request was signed before this server started"
	default:
		return "more requests came than can be remembered"
	}
}

// Verifier checks signatures and takes each request once. It forgets when the
// process ends, and so takes none that was signed before it was made. Make one
// with [NewVerifier]; its methods are safe for concurrent use.
type Verifier struct {
	keys    []Key
	started time.Time
	now     func() time.Time
	most    int

	// Nonces are remembered for two to four windows: a request may be signed a
	// window ahead of now, and is refused a window after that.
	mu         sync.Mutex
	fresh, old map[[16]byte]struct{}
	turned     time.Time
}

// maxNonces bounds what is remembered to about 40 MB.
const maxNonces = 1 << 20

// NewVerifier makes a verifier for the holders of keys. now is the clock; nil is
// the system's.
func NewVerifier(keys []Key, now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}
	return &Verifier{keys: keys, started: now(), now: now, most: maxNonces, fresh: map[[16]byte]struct{}{}, turned: now()}
}

// Verify gives the name of who signed the request, or a [*Refusal]. What is not
// well signed is told nothing else, such as whether its time is right.
func (v *Verifier) Verify(r *http.Request, body []byte) (string, error) {
	timestamp := r.Header.Get(HeaderTimestamp)
	millis, err := strconv.ParseInt(timestamp, 10, 64)
	var nonce [16]byte
	once := r.Header.Get(HeaderNonce)
	signature, ok := strings.CutPrefix(r.Header.Get(HeaderSignature), version)
	given, herr := hex.DecodeString(signature)
	if n, nerr := hex.Decode(nonce[:], first(once, 32)); err != nil || nerr != nil || n != len(nonce) || len(once) != 32 || !ok || herr != nil {
		return "", &Refusal{Reason: Unsigned}
	}
	name, known := "", false
	for _, k := range v.keys { // all of them, so that time tells nothing
		if hmac.Equal(given, mac(r, body, k.Secret, timestamp, once)) {
			name, known = k.Name, true
		}
	}
	if !known {
		return "", &Refusal{Reason: Wrong}
	}
	now := v.now()
	if skew := time.UnixMilli(millis).Sub(now); skew.Abs() > Window {
		return "", &Refusal{Reason: Skewed, Skew: skew}
	}
	if millis < v.started.UnixMilli() {
		return "", &Refusal{Reason: Early}
	}
	return name, v.remember(nonce, now)
}

func first(s string, n int) []byte { return []byte(s[:min(n, len(s))]) }

func (v *Verifier) remember(nonce [16]byte, now time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now.Sub(v.turned) > 2*Window {
		v.old, v.fresh, v.turned = v.fresh, map[[16]byte]struct{}{}, now
	}
	_, isFresh := v.fresh[nonce]
	_, isOld := v.old[nonce]
	if isFresh || isOld {
		return &Refusal{Reason: Replayed}
	}
	if len(v.fresh)+len(v.old) >= v.most {
		return &Refusal{Reason: Busy}
	}
	v.fresh[nonce] = struct{}{}
	return nil
}
