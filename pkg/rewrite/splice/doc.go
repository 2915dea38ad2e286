// Package splice writes large Parquet files from many small ones without
// decoding their values: the encoded pages are moved into full row groups.
//
// A File is an input, a Unit one of its row groups, a Writer an output. The
// packages below do one thing each:
//
//	thrift   the compact protocol that metadata is written in
//	format   footer, page headers and page indexes
//	codec    compression of page bodies
//	hybrid   the run-length and bit-packed encoding of levels and indices
//	delta    the encodings of integers and byte arrays as differences
//	page     taking chunks apart into pages, and pages into levels and values
//	dict     dictionaries and their union
//	stats    which statistics may be believed, and their union
//	layout   which leaf column of a file holds which field of the table
//	column   one column chunk from many
//	remake   a column chunk decoded and encoded anew, where it cannot be moved
//	bloom    the Bloom filter of a finished column chunk
//	refuse   the error that leaves something to the general engine
//
// # What it refuses
//
// Whatever is not known is refused with a rule's name (refuse.Error), never
// guessed. The general engine then rewrites the group from the start. Damage is
// an error too; only a wrong checksum is one that no other engine should hide.
//
// # What it promises
//
// Rows come out in the order of the units. Rows and values are counted in the
// pages, in their levels where the column is repeated, and compared with what
// the footers say, in and out. Pages that lose rows, and columns that change their
// type or are missing, are decoded alone (package remake). Statistics are exact:
// taken from trusted ones, or measured by decoding that column. Bytes of a moved
// page are not looked at: damage in them passes unless the page has a checksum.
package splice
