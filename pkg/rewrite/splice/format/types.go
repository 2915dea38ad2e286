// Package format has the metadata structures of Parquet files: footer, page
// headers and page indexes, as parquet.thrift defines them (format 2.12).
//
// Libraries read these structures too, but lose what moving pages needs to know:
// whether a checksum, a null count or an exactness flag was there at all. Here
// what may be missing is a pointer or a nil slice.
package format

// Type is a physical type.
type Type int32

// The physical types of parquet.thrift.
const (
	Boolean Type = iota
	Int32
	Int64
	Int96
	Float
	Double
	ByteArray
	FixedLenByteArray
)

// Width is the size of a value in bytes, 0 for types without a fixed one.
func (t Type) Width() int {
	switch t {
	case Int32, Float:
		return 4
	case Int64, Double:
		return 8
	case Int96:
		return 12
	default:
		return 0
	}
}

// Repetition of a schema element.
type Repetition int32

// The repetitions of parquet.thrift.
const (
	Required Repetition = iota
	Optional
	Repeated
)

// Encoding of levels or values.
type Encoding int32

// The encodings of parquet.thrift.
const (
	Plain                Encoding = 0
	PlainDictionary      Encoding = 2
	RLE                  Encoding = 3
	BitPacked            Encoding = 4
	DeltaBinaryPacked    Encoding = 5
	DeltaLengthByteArray Encoding = 6
	DeltaByteArray       Encoding = 7
	RLEDictionary        Encoding = 8
	ByteStreamSplit      Encoding = 9
)

// Dictionary reports whether values are indices into a dictionary.
func (e Encoding) Dictionary() bool { return e == PlainDictionary || e == RLEDictionary }

// Codec is a compression codec.
type Codec int32

// The codecs of parquet.thrift.
const (
	Uncompressed Codec = 0
	Snappy       Codec = 1
	Gzip         Codec = 2
	Brotli       Codec = 4
	Zstd         Codec = 6
	LZ4Raw       Codec = 7
)

// PageType is the kind of a page.
type PageType int32

// The page types of parquet.thrift.
const (
	DataPage       PageType = 0
	IndexPage      PageType = 1
	DictionaryPage PageType = 2
	DataPageV2     PageType = 3
)

// Converted types that matter here.
const (
	ConvertedUTF8            int32 = 0
	ConvertedMap             int32 = 1
	ConvertedMapKeyValue     int32 = 2
	ConvertedList            int32 = 3
	ConvertedDecimal         int32 = 5
	ConvertedDate            int32 = 6
	ConvertedTimeMicros      int32 = 8
	ConvertedTimestampMicros int32 = 10
	ConvertedInt8            int32 = 15
	ConvertedInt32           int32 = 17
	ConvertedInt64           int32 = 18
)

// LogicalKind is the field id of the LogicalType union.
type LogicalKind int16

// The logical types that matter here.
const (
	LogicalNone      LogicalKind = 0
	LogicalString    LogicalKind = 1
	LogicalMap       LogicalKind = 2
	LogicalList      LogicalKind = 3
	LogicalDecimal   LogicalKind = 5
	LogicalDate      LogicalKind = 6
	LogicalTime      LogicalKind = 7
	LogicalTimestamp LogicalKind = 8
	LogicalInteger   LogicalKind = 10
	LogicalUUID      LogicalKind = 14
)

// TimeUnit is the field id of the TimeUnit union.
type TimeUnit int16

// The units of times.
const (
	Millis TimeUnit = 1
	Micros TimeUnit = 2
	Nanos  TimeUnit = 3
)

// LogicalType is an annotation. Which fields count depends on the kind.
type LogicalType struct {
	Kind             LogicalKind
	UTC              bool
	Unit             TimeUnit
	Scale, Precision int32
	BitWidth         int8
	Signed           bool
}

// SchemaElement is a node of the schema tree, which is stored in preorder.
type SchemaElement struct {
	Type        *Type
	TypeLength  int32
	Repetition  *Repetition
	Name        string
	NumChildren int32
	Converted   *int32
	Scale       int32
	Precision   int32
	FieldID     *int32
	Logical     LogicalType
}

// Statistics of a column chunk or a page. Min and Max are the fields whose order
// is defined; the deprecated ones are not read.
type Statistics struct {
	NullCount          *int64
	Min, Max           []byte
	MinExact, MaxExact *bool
}

// ColumnMetaData describes a column chunk.
type ColumnMetaData struct {
	Type              Type
	Encodings         []Encoding
	Path              []string
	Codec             Codec
	NumValues         int64
	TotalUncompressed int64
	TotalCompressed   int64
	DataPageOffset    int64
	DictionaryOffset  *int64
	Statistics        *Statistics
	EncodingStats     []PageEncodingStats
	// BloomOffset and BloomLength are written, and not read. Length 0 is none.
	BloomOffset int64
	BloomLength int32
}

// Start is the offset of the chunk's first page. A dictionary stands before the
// data; some writers give an offset of one where there is none.
func (m *ColumnMetaData) Start() int64 {
	if d := m.DictionaryOffset; d != nil && *d > 0 && *d < m.DataPageOffset {
		return *d
	}

	return m.DataPageOffset
}

// PageEncodingStats counts pages of one kind and encoding.
type PageEncodingStats struct {
	Type     PageType
	Encoding Encoding
	Count    int32
}

// ColumnChunk is a column of a row group.
type ColumnChunk struct {
	FilePath          string // set when the data is in another file
	Encrypted         bool
	Meta              *ColumnMetaData
	OffsetIndexOffset int64
	OffsetIndexLength int32
	ColumnIndexOffset int64
	ColumnIndexLength int32
}

// RowGroup is a horizontal slice of a file.
type RowGroup struct {
	Columns         []ColumnChunk
	TotalByteSize   int64
	NumRows         int64
	FileOffset      int64
	TotalCompressed int64
	Ordinal         int16
}

// KeyValue is an entry of the file's own metadata.
type KeyValue struct{ Key, Value string }

// FileMetaData is the footer.
type FileMetaData struct {
	Version int32
	Schema  []SchemaElement
	// RawSchema is the schema as it was read, and is not written.
	RawSchema    []byte
	NumRows      int64
	RowGroups    []RowGroup
	KeyValues    []KeyValue
	CreatedBy    string
	ColumnOrders []bool // per column: the order is the one its type defines
	Encrypted    bool
}

// PageHeader stands before every page. Which of the last three is set depends on
// the type.
type PageHeader struct {
	Type         PageType
	Uncompressed int32
	Compressed   int32
	CRC          *uint32
	Data         *DataPageHeader
	DataV2       *DataPageHeaderV2
	Dictionary   *DictionaryPageHeader
}

// DataPageHeader is that of a version 1 data page.
type DataPageHeader struct {
	NumValues  int32
	Encoding   Encoding
	Definition Encoding
	Repetition Encoding
	Statistics *Statistics
}

// DataPageHeaderV2 is that of a version 2 data page.
type DataPageHeaderV2 struct {
	NumValues        int32
	NumNulls         int32
	NumRows          int32
	Encoding         Encoding
	DefinitionLength int32
	RepetitionLength int32
	Raw              bool // is_compressed is there and false
	Statistics       *Statistics
}

// DictionaryPageHeader is that of a dictionary page.
type DictionaryPageHeader struct {
	NumValues int32
	Encoding  Encoding
}

// PageLocation is an entry of the offset index.
type PageLocation struct {
	Offset   int64
	Size     int32 // with the header
	FirstRow int64
}

// ColumnIndex has the bounds of every data page of a column chunk.
type ColumnIndex struct {
	NullPages  []bool
	Min, Max   [][]byte
	Order      int32 // 0 unordered, 1 ascending, 2 descending
	NullCounts []int64
}
