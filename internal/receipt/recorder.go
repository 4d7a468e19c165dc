package receipt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

// RecorderOptions tune a Recorder; the zero value is what a server wants.
type RecorderOptions struct {
	// Window is how long the first receipt of a group waits for others: a
	// transaction costs as much as many receipts. Flush does not wait for it.
	// Default 25 ms.
	Window time.Duration
	// Group is the most receipts of one transaction; default 1,024.
	Group int
	// Queue is the most receipts that are not yet durable; default 8,192.
	Queue int
	// Retry is the wait after a failed commit; it doubles with each failure up
	// to MaxRetry. Defaults 50 ms and 2 s.
	Retry, MaxRetry time.Duration
	// Reserve is how many bytes must be free where receipts are kept: with less,
	// calls are refused while those that run can still be recorded. Default
	// 16 MiB, negative none.
	Reserve int64
	// Written is told of each group once it is durable, in order, with Seq and
	// Hash. It holds up the next group while it runs; it may be nil.
	Written func([]*Receipt)
	// LeftOut is told, once receipts can be written again, how many of refused
	// calls were left out meanwhile: see [Receipt.Refused]. It may be nil.
	LeftOut func(n int)
}

// Recorder takes receipts off the path of calls and commits them in groups, in
// the order in which they came. When the store refuses a group, the Recorder
// keeps it and tries again until it succeeds; meanwhile Ready says why.
//
// Make one with NewRecorder and end it with Close. Its methods are safe for
// concurrent use.
type Recorder struct {
	store Store
	opts  RecorderOptions

	mu      sync.Mutex
	queue   []*Receipt    // not yet durable, oldest first
	total   uint64        // receipts appended so far
	leftOut int           // receipts of refused calls since the last commit
	failure error         // why the last commit failed
	space   error         // why there is too little room for more
	looked  time.Time     // when space was found out
	closing bool          // no more appends
	over    bool          // run has ended
	changed chan struct{} // closed and replaced when any of the above has changed

	arrived chan struct{} // wakes run from an empty queue
	hurry   chan struct{} // wakes run out of a pause
	stop    context.CancelFunc
	done    chan struct{} // closed when run has ended
}

// NewRecorder starts a recorder over store.
func NewRecorder(store Store, opts RecorderOptions) *Recorder {
	opts.Window = orDefault(opts.Window, 25*time.Millisecond)
	opts.Group = orDefault(opts.Group, 1024)
	opts.Queue = orDefault(opts.Queue, 8192)
	opts.Retry = orDefault(opts.Retry, 50*time.Millisecond)
	opts.MaxRetry = orDefault(opts.MaxRetry, 2*time.Second)
	if opts.Reserve == 0 {
		opts.Reserve = 16 << 20
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &Recorder{
		store:   store,
		opts:    opts,
		changed: make(chan struct{}),
		arrived: make(chan struct{}, 1),
		hurry:   make(chan struct{}, 1),
		stop:    stop,
		done:    make(chan struct{}),
	}
	go r.run(ctx)
	return r
}

// Append queues a receipt, which belongs to the recorder from then on. It
// blocks only while the queue is full; ctx ends that wait and nothing else, so
// the receipt of a cancelled call is kept when ctx has ended already. An error
// means that the receipt was not taken.
func (r *Recorder) Append(ctx context.Context, rec *Receipt) error {
	r.mu.Lock()
	if rec.Refused && len(r.queue) >= r.opts.Queue/2 {
		// Half of the room is for calls that have run: who refuses must not have
		// anybody wait, and callers come again.
		r.leftOut++
		r.mu.Unlock()
		return nil
	}
	for len(r.queue) >= r.opts.Queue && !r.closing {
		if err := r.await(ctx); err != nil {
			r.mu.Unlock()
			return fmt.Errorf("record call %s: %d receipts wait to be written: %w", rec.ID, r.opts.Queue, err)
		}
	}
	defer r.mu.Unlock()
	if r.closing {
		return fmt.Errorf("record call %s: %w", rec.ID, errClosed)
	}
	r.queue = append(r.queue, rec)
	r.total++
	wake(r.arrived)
	if len(r.queue) == r.opts.Group {
		wake(r.hurry)
	}
	return nil
}

// Flush returns when every receipt appended before it is durable. It returns
// the reason at once when they cannot be written now; they stay queued and are
// tried again.
func (r *Recorder) Flush(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	target := r.total
	for r.total-uint64(len(r.queue)) < target {
		if r.failure != nil {
			return r.failure
		}
		if r.over {
			return errClosed
		}
		wake(r.hurry)
		if err := r.await(ctx); err != nil {
			return fmt.Errorf("wait for receipts to be written: %w", err)
		}
	}
	return nil
}

// Ready is nil, or the reason why receipts cannot be written now. The runner
// refuses calls while there is one.
func (r *Recorder) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.failure != nil:
		return r.failure
	case r.closing:
		return errClosed
	}
	if now := time.Now(); now.Sub(r.looked) >= spacePeriod {
		r.looked, r.space = now, r.checkSpace()
	}
	return r.space
}

// spacePeriod is how often the room that is left is looked at.
const spacePeriod = 250 * time.Millisecond

func (r *Recorder) checkSpace() error {
	if r.opts.Reserve < 0 {
		return nil
	}
	free, err := r.store.ReceiptSpace(context.Background())
	if err != nil || free >= r.opts.Reserve {
		return nil // what cannot be known shows when a write fails
	}
	e := toolroom.Errorf(toolroom.CodeInternal, "%d bytes are free where receipts are kept, and %d are reserved for the calls that run", free, r.opts.Reserve)
	e.Phase, e.Retryable = toolroom.PhaseReceipt, true
	return e.WithHint("free space on that disk; Toolroom then goes on by itself")
}

// Intend makes it durable that a call is about to run. Where the process dies
// before the call's receipt is appended, the intent becomes its receipt. An
// error means that the call must not run.
func (r *Recorder) Intend(ctx context.Context, rec *Receipt, owner string) error {
	return r.store.IntendReceipt(ctx, rec, owner)
}

// Queued is how many receipts are not yet durable.
func (r *Recorder) Queued() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue)
}

// Close takes no more receipts and returns when all are durable. When ctx ends
// first it gives up, and the error says how many receipts were lost. Closing
// again waits for the same end.
func (r *Recorder) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closing = true
	r.announce() // appends that wait for room give up
	wake(r.arrived)
	wake(r.hurry)
	r.mu.Unlock()

	select {
	case <-r.done:
	case <-ctx.Done():
		r.stop()
		<-r.done
	}
	r.stop()

	r.mu.Lock()
	defer r.mu.Unlock()
	if lost := len(r.queue); lost > 0 {
		return fmt.Errorf("close the recorder: %d receipts could not be written: %w", lost, cmp.Or(r.failure, ctx.Err()))
	}
	return nil
}

// run commits group after group until the recorder is closed and its queue
// empty, or ctx ends.
func (r *Recorder) run(ctx context.Context) {
	defer r.ended()
	retry := r.opts.Retry
	for r.awaitReceipt(ctx) {
		if !r.groupIsFull() {
			r.pause(ctx, r.opts.Window)
		}
		for !r.commit(ctx) {
			if ctx.Err() != nil {
				return
			}
			r.pause(ctx, retry)
			retry = min(2*retry, r.opts.MaxRetry)
		}
		retry = r.opts.Retry
	}
}

// awaitReceipt blocks until there is something to commit. It is false when
// there will be nothing more.
func (r *Recorder) awaitReceipt(ctx context.Context) bool {
	for {
		r.mu.Lock()
		waiting, closing := len(r.queue), r.closing
		r.mu.Unlock()
		if waiting > 0 || closing || ctx.Err() != nil {
			return waiting > 0 && ctx.Err() == nil
		}
		select {
		case <-r.arrived:
		case <-ctx.Done():
		}
	}
}

func (r *Recorder) groupIsFull() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) >= r.opts.Group
}

// pause waits for d, less when somebody is in a hurry.
func (r *Recorder) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.hurry:
	case <-ctx.Done():
	}
}

// commit writes the receipts at the head of the queue and takes them off it
// once they are durable.
func (r *Recorder) commit(ctx context.Context) bool {
	r.mu.Lock()
	group := slices.Clone(r.queue[:min(len(r.queue), r.opts.Group)])
	r.mu.Unlock()

	for _, receipt := range group {
		receipt.hashArguments()
	}
	err := r.store.AppendReceipts(ctx, group)
	if err == nil && r.opts.Written != nil {
		r.opts.Written(group)
	}

	r.mu.Lock()
	if left := r.leftOut; err == nil && left > 0 && r.opts.LeftOut != nil {
		r.leftOut = 0
		defer r.opts.LeftOut(left)
	}
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.queue = slices.Delete(r.queue, 0, len(group))
		r.failure = nil
	case ctx.Err() == nil || r.failure == nil:
		r.failure = unready(err)
	}
	r.announce()
	return err == nil
}

func (r *Recorder) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	close(r.done)
	r.announce()
}

// announce wakes all who wait for a change. The caller holds mu.
func (r *Recorder) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// await lets go of mu until something has changed or ctx has ended.
func (r *Recorder) await(ctx context.Context) error {
	changed := r.changed
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func unready(err error) error {
	e := *toolroom.AsError(err)
	e.Phase = toolroom.PhaseReceipt
	e.Message = "receipts cannot be written: " + e.Message
	e.Retryable = true
	if e.Hint == "" {
		e.Hint = "calls are refused until this is mended; Toolroom tries again by itself"
	}
	return &e
}

var errClosed = &toolroom.Error{
	Code:    toolroom.CodeInternal,
	Phase:   toolroom.PhaseReceipt,
	Message: "receipts cannot be written: the recorder is closed",
	Hint:    "this process is shutting down; call again when it is back",
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func orDefault[T int | time.Duration](v, fallback T) T {
	if v <= 0 {
		return fallback
	}
	return v
}
