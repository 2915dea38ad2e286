package store

import "sync/atomic"

// Counters counts requests as they were sent, repeated ones included, and
// payload bytes as they were moved. All fields may be read while work goes on.
// One value can be shared by any number of stores.
type Counters struct {
	Gets         atomic.Int64 // GET requests; local: files opened
	Puts         atomic.Int64 // PUT and multipart requests; local: files created
	Heads        atomic.Int64 // HEAD requests; local: stat calls
	Lists        atomic.Int64 // list requests; local: folders walked
	Deletes      atomic.Int64 // delete requests, one per batch; local: files removed
	BytesRead    atomic.Int64 // bytes of object content received
	BytesWritten atomic.Int64 // bytes of object content sent
}

// Totals is a copy of Counters at one moment.
type Totals struct {
	Gets, Puts, Heads, Lists, Deletes int64
	BytesRead, BytesWritten           int64
}

// Totals reads all counters. They are read one after the other, so that a
// request in flight may show in one and not yet in another.
func (c *Counters) Totals() Totals {
	return Totals{
		Gets: c.Gets.Load(), Puts: c.Puts.Load(), Heads: c.Heads.Load(),
		Lists: c.Lists.Load(), Deletes: c.Deletes.Load(),
		BytesRead: c.BytesRead.Load(), BytesWritten: c.BytesWritten.Load(),
	}
}

// Sub is what happened between an earlier reading o and t.
func (t Totals) Sub(o Totals) Totals {
	return Totals{
		Gets: t.Gets - o.Gets, Puts: t.Puts - o.Puts, Heads: t.Heads - o.Heads,
		Lists: t.Lists - o.Lists, Deletes: t.Deletes - o.Deletes,
		BytesRead: t.BytesRead - o.BytesRead, BytesWritten: t.BytesWritten - o.BytesWritten,
	}
}

// Requests is the number of requests of every kind.
func (t Totals) Requests() int64 { return t.Gets + t.Puts + t.Heads + t.Lists + t.Deletes }
