package receipt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/panics"
)

// RecorderOptions configure a Recorder. The zero value is ready to use.
type RecorderOptions struct {
	// Window is how long the first receipt of a group waits for others, because a
	// transaction costs as much as many receipts. Flush does not wait for it. The
	// default is 25 ms.
	Window time.Duration
	// Group is the maximum number of receipts in one transaction; default 1,024.
	Group int
	// Queue is the maximum number of receipts that are not yet durable; default
	// 8,192.
	Queue int
	// Retry is the pause after a failed commit; it doubles with each failure up to
	// MaxRetry. The defaults are 50 ms and 2 s.
	Retry, MaxRetry time.Duration
	// Reserve is how many bytes must be free where receipts are stored: with less,
	// new calls are refused, so that the running ones can still be recorded. The
	// default is 16 MiB; a negative value means none.
	Reserve int64
	// Journal holds the receipts that are not yet durable, so that none is lost when
	// the process ends. The recorder closes it. Without a Journal they are held in
	// memory only.
	Journal *Journal
	// Sync selects receipts for which Append waits until they are on the disk; nil
	// selects none.
	Sync func(*toolroom.Receipt) bool
	// Head records the end of the chain after each group; it may be nil.
	Head *Head
	// OnError is called with errors of writing the journal or head, without a lock; it may
	// be nil.
	OnError func(error)
	// OnStored is called with each durable group, in order, with Seq and Hash set.
	// The next group waits until it returns. It may be nil.
	OnStored func([]*toolroom.Receipt)
	// OnDropped is called once receipts can be written again, with the number of
	// receipts of refused calls that were dropped meanwhile, see [Draft.Refused].
	// It may be nil.
	OnDropped func(n int)
}

// Recorder commits receipts in groups, in the order of arrival, without delaying
// calls. If the store fails to take a group, the Recorder keeps it and retries
// until it succeeds; meanwhile Ready returns the reason.
//
// Create a Recorder with NewRecorder and end it with Close. Its methods are safe
// for concurrent use.
type Recorder struct {
	store Store
	opts  RecorderOptions

	mu           sync.Mutex
	queue        []*Draft      // not yet durable, oldest first
	total        uint64        // receipts appended so far
	dropped      int           // receipts of refused calls since the last commit
	failure      error         // why the last commit failed
	space        error         // why there is too little space for more
	spaceChecked time.Time     // when space was checked
	closing      bool          // no more appends
	stopped      bool          // run has ended
	syncing      bool          // a call syncs the journal
	closed       bool          // the journal is closed
	changed      chan struct{} // closed and replaced when any of the above has changed

	arrived  chan struct{} // wakes run from an empty queue
	flushNow chan struct{} // wakes run out of a pause
	stop     context.CancelFunc
	done     chan struct{} // closed when run has ended
}

// NewRecorder starts a Recorder that writes to store.
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
		store:    store,
		opts:     opts,
		changed:  make(chan struct{}),
		arrived:  make(chan struct{}, 1),
		flushNow: make(chan struct{}, 1),
		stop:     stop,
		done:     make(chan struct{}),
	}
	go r.run(ctx)
	return r
}

// Append queues a receipt, which belongs to the recorder from then on. When
// Append returns, the receipt is in the journal, and one that Sync selects is on
// the disk: the journal is synced. If that fails, or the receipt cannot be written
// to the journal, Append waits until the receipt is in the store, unless receipts
// cannot be written now. Append also blocks while the queue is full. ctx ends these waits
// only, except a sync that Append does itself, so the receipt of a cancelled call is kept
// even if ctx has already ended.
// An error means that the receipt was not accepted.
func (r *Recorder) Append(ctx context.Context, rec *Draft) error {
	sync, journalled := r.opts.Sync != nil && r.opts.Sync(&rec.Receipt), r.opts.Journal != nil
	if r.opts.Journal != nil {
		rec.hashArguments() // the raw arguments may be secret
		if err := rec.encode(); err != nil {
			return fmt.Errorf("record call %s: %w", rec.ID, err)
		}
	}
	r.mu.Lock()
	if rec.Refused && len(r.queue) >= r.opts.Queue/2 {
		// Half of the queue is reserved for calls that have run: a refused call must
		// not wait, and callers retry.
		r.dropped++
		r.mu.Unlock()
		return nil
	}
	for len(r.queue) >= r.opts.Queue && !r.closing {
		if err := r.await(ctx); err != nil {
			r.mu.Unlock()
			return fmt.Errorf("record call %s: %d receipts wait to be written: %w", rec.ID, r.opts.Queue, err)
		}
	}
	var failed error
	defer func() { r.reportError(failed) }() // without the lock, because a log may be slow
	defer r.mu.Unlock()
	if r.closing {
		return fmt.Errorf("record call %s: %w", rec.ID, errClosed)
	}
	if r.opts.Journal != nil {
		// In the order of the queue, so that committed entries are a prefix of the
		// journal.
		if failed = r.opts.Journal.add(rec); failed != nil {
			sync, journalled = true, false
		}
	}
	r.queue = append(r.queue, rec)
	r.total++
	wake(r.arrived)
	if len(r.queue) == r.opts.Group {
		wake(r.flushNow)
	}
	if sync && !(journalled && r.syncJournal(ctx, rec.Entry)) {
		// The receipt is accepted; Ready says why it is not durable.
		_ = r.flush(ctx)
	}
	return nil
}

// syncJournal waits until an entry of the journal is on the disk, and reports whether it
// is. Calls that wait at the same time share a sync. The caller holds mu.
func (r *Recorder) syncJournal(ctx context.Context, entry int64) bool {
	j := r.opts.Journal
	for j.synced < entry {
		if j.failed {
			return false
		}
		if r.syncing {
			if r.await(ctx) != nil {
				return false
			}
			continue
		}
		sync, done := j.sync()
		r.syncing = true
		r.mu.Unlock()
		err := sync()
		r.mu.Lock()
		r.syncing = false
		r.announce()
		if err == nil {
			done()
			continue
		}
		j.failed = true
		if !r.closed { // else the file was closed meanwhile
			r.mu.Unlock()
			r.reportError(err)
			r.mu.Lock()
		}
	}
	return true
}

// reportError reports an error that no call can return. The caller must not hold mu.
func (r *Recorder) reportError(err error) {
	if err != nil && r.opts.OnError != nil {
		r.opts.OnError(err)
	}
}

// Flush waits until every receipt appended before is durable. If receipts cannot
// be written now, it returns the reason at once; they stay queued and are retried.
func (r *Recorder) Flush(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flush(ctx)
}

// flush is Flush for callers that hold mu.
func (r *Recorder) flush(ctx context.Context) error {
	target := r.total
	for r.total-uint64(len(r.queue)) < target {
		if r.failure != nil {
			return r.failure
		}
		if r.stopped {
			return errClosed
		}
		wake(r.flushNow)
		if err := r.await(ctx); err != nil {
			return fmt.Errorf("wait for receipts to be written: %w", err)
		}
	}
	return nil
}

// Ready returns the reason why receipts cannot be written now, or nil. The runner
// refuses calls while it returns an error.
func (r *Recorder) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.failure != nil:
		return r.failure
	case r.closing:
		return errClosed
	}
	if now := time.Now(); now.Sub(r.spaceChecked) >= spacePeriod {
		r.spaceChecked = now // other callers use the last result meanwhile; only this one waits for the disk
		r.mu.Unlock()
		space := r.checkSpace()
		r.mu.Lock()
		r.space = space
	}
	return r.space
}

// spacePeriod is how often the free space is checked.
const spacePeriod = 250 * time.Millisecond

func (r *Recorder) checkSpace() error {
	if r.opts.Reserve < 0 {
		return nil
	}
	free, err := r.store.ReceiptSpace(context.Background())
	if err != nil || free >= r.opts.Reserve {
		return nil // if it is unknown, a failing write will show it
	}
	e := toolroom.Errorf(toolroom.CodeInternal, "%d bytes are free where receipts are stored, and %d are reserved for the running calls", free, r.opts.Reserve)
	e.Phase, e.Retryable = toolroom.PhaseReceipt, true
	return e.WithHint("free space on that disk; Toolroom then continues by itself")
}

// Intend durably records that a call is about to run. If the process dies before
// the call's receipt is appended, the intent becomes its receipt. An error means
// that the call must not run.
func (r *Recorder) Intend(ctx context.Context, rec *toolroom.Receipt, owner string) error {
	return r.store.IntendReceipt(ctx, rec, owner)
}

// Queued returns the number of receipts that are not yet durable.
func (r *Recorder) Queued() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue)
}

// Close stops accepting receipts and waits until all are durable. If ctx ends
// first, Close gives up and its error says how many receipts were lost. It then
// does not wait for an OnStored that does not return. A second Close waits for the
// same end.
func (r *Recorder) Close(ctx context.Context) error {
	defer r.stop()
	r.mu.Lock()
	r.closing = true
	r.announce() // appends that wait for space give up
	wake(r.arrived)
	wake(r.flushNow)
	r.mu.Unlock()

	select {
	case <-r.done:
	case <-ctx.Done():
		r.stop()
		select {
		case <-r.done:
		case <-time.After(abandonTime): // nobody reads what OnStored writes, for example
		}
	}

	var failed error
	defer func() { r.reportError(failed) }()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opts.Journal != nil && !r.closed {
		r.closed = true
		failed = r.opts.Journal.close()
	}
	if lost := len(r.queue); lost > 0 && r.opts.Journal != nil {
		return fmt.Errorf("close the recorder: %d receipts wait in the journal for the next process: %w", lost, cmp.Or(r.failure, ctx.Err()))
	} else if lost > 0 {
		return fmt.Errorf("close the recorder: %d receipts could not be written: %w", lost, cmp.Or(r.failure, ctx.Err()))
	}
	return nil
}

// abandonTime is how long Close waits for the end of the current commit once it has given up.
const abandonTime = time.Second

// run commits group after group until the recorder is closed and its queue
// empty, or ctx ends.
func (r *Recorder) run(ctx context.Context) {
	defer r.markStopped()
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

// awaitReceipt blocks until there is a receipt to commit. It reports false if
// there will be no more.
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

// pause waits for d, or until a flush needs a commit sooner.
func (r *Recorder) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.flushNow:
	case <-ctx.Done():
	}
}

// commit writes the receipts at the head of the queue and removes them once they
// are durable.
func (r *Recorder) commit(ctx context.Context) bool {
	r.mu.Lock()
	group := slices.Clone(r.queue[:min(len(r.queue), r.opts.Group)])
	if r.opts.Journal != nil {
		r.opts.Journal.switchFile()
	}
	r.mu.Unlock()

	var err error
	panicked := panics.Catch(func() {
		for _, receipt := range group {
			receipt.hashArguments()
		}
		err = r.store.AppendReceipts(ctx, group)
	})
	err = cmp.Or(panicked, err)
	if last := len(group) - 1; err == nil && r.opts.Head != nil && group[0].Seq > 0 && group[last].Seq > 0 {
		r.reportError(r.opts.Head.advance(group[0].Seq, Chain{group[last].Seq, group[last].Hash}))
	}
	if err == nil && r.opts.OnStored != nil {
		_ = panics.Catch(func() { r.opts.OnStored(receipts(group)) }) // the receipts are durable all the same
	}

	r.mu.Lock()
	if n := r.dropped; err == nil && n > 0 && r.opts.OnDropped != nil {
		r.dropped = 0
		defer r.opts.OnDropped(n)
	}
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.queue = slices.Delete(r.queue, 0, len(group))
		if r.opts.Journal != nil {
			r.opts.Journal.dropCommitted(group[len(group)-1].Entry)
		}
		r.failure = nil
	case ctx.Err() == nil || r.failure == nil:
		r.failure = errNotReady(err)
	}
	r.announce()
	return err == nil
}

func receipts(group []*Draft) []*toolroom.Receipt {
	list := make([]*toolroom.Receipt, len(group))
	for i, d := range group {
		list[i] = &d.Receipt
	}
	return list
}

// markStopped records that run has ended.
func (r *Recorder) markStopped() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	close(r.done)
	r.announce()
}

// announce wakes all waits for a change. The caller holds mu.
func (r *Recorder) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// await releases mu until something has changed or ctx has ended.
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

func errNotReady(err error) error {
	e := *toolroom.AsError(err)
	e.Phase = toolroom.PhaseReceipt
	e.Message = "receipts cannot be written: " + e.Message
	e.Retryable = true
	if e.Hint == "" {
		e.Hint = "calls are refused until this is fixed; Toolroom retries by itself"
	}
	return &e
}

var errClosed = &toolroom.Error{
	Code:    toolroom.CodeInternal,
	Phase:   toolroom.PhaseReceipt,
	Message: "receipts cannot be written: the recorder is closed",
	Hint:    "this process is shutting down; call again after it has restarted",
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
