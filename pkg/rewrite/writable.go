package rewrite

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// unwritable names a reason why no output of the table could be written or
// committed, which is better known before any work is done.
func unwritable(tbl *table.Table) string {
	props := tbl.Properties()
	codecs := []string{"zstd", "snappy", "gzip", "brotli", "lz4raw", "uncompressed"}
	if codec := props.Get(compressionCodecKey, codecs[0]); !slices.Contains(codecs, strings.ToLower(codec)) {
		return fmt.Sprintf("%s is %q; only %s can be written", compressionCodecKey, codec, strings.Join(codecs, ", "))
	}
	for _, key := range []string{
		table.WriteTargetFileSizeBytesKey, table.ParquetRowGroupLimitKey,
		"write.parquet.row-group-size-bytes", "write.parquet.page-size-bytes",
		"write.parquet.page-row-limit", "write.parquet.dict-size-bytes", "write.parquet.bloom-filter-max-bytes",
	} {
		if text, set := props[key]; set {
			if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < 1 {
				return fmt.Sprintf("%s is %q, which is not a positive number", key, text)
			}
		}
	}
	if reason := cmp.Or(unusableLevel(props), unusableBloom(props)); reason != "" {
		return reason
	}

	return UnwritableSpec(tbl.Schema(), tbl.Spec())
}

// UnwritableSpec names the reason why iceberg-go can write no manifest of a
// partition spec, or nothing.
func UnwritableSpec(sc *iceberg.Schema, spec iceberg.PartitionSpec) string {
	if hasUnknownTransform(spec) {
		return fmt.Sprintf("partition spec %d uses a transform this version does not know", spec.ID())
	}
	if reason := unwritableNames(spec); reason != "" {
		return reason
	}

	return severalDecimals(sc, spec)
}

// unusableLevel looks for a level that the codec does not have.
func unusableLevel(props iceberg.Properties) string {
	text, set := props[compressionLevelKey]
	if !set {
		return ""
	}
	level, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Sprintf("%s is %q, which is not a number", compressionLevelKey, text)
	}
	codec := strings.ToLower(props.Get(compressionCodecKey, "zstd"))
	bounds, levels := map[string][2]int{"zstd": {-5, 22}, "gzip": {-3, 9}, "brotli": {-1, 11}}[codec]
	if levels && (level < bounds[0] || level > bounds[1]) {
		return fmt.Sprintf("%s is %d; %s has levels from %d to %d", compressionLevelKey, level, codec, bounds[0], bounds[1])
	}

	return ""
}

// unusableBloom looks for numbers of bloom filters that make no sense.
func unusableBloom(props iceberg.Properties) string {
	for _, key := range slices.Sorted(maps.Keys(props)) {
		if strings.HasPrefix(key, bloomRatePrefix) {
			if rate, err := strconv.ParseFloat(props[key], 64); err != nil || !(rate > 0 && rate < 1) {
				return fmt.Sprintf("%s is %q, which is no share between 0 and 1", key, props[key])
			}
		}
		if strings.HasPrefix(key, bloomValuesPrefix) {
			if n, err := strconv.ParseInt(props[key], 10, 32); err != nil || n < 1 {
				return fmt.Sprintf("%s is %q, which is no number of values", key, props[key])
			}
		}
	}

	return ""
}

// severalDecimals looks for two decimal values in a partition: iceberg-go gives
// the types of both the same name in the schema of a manifest, which Avro does
// not allow.
func severalDecimals(sc *iceberg.Schema, spec iceberg.PartitionSpec) string {
	first := ""
	for _, field := range spec.Fields() {
		source, found := sc.FindTypeByID(field.SourceID())
		if !found {
			continue
		}
		if _, decimal := field.Transform.ResultType(source).(iceberg.DecimalType); !decimal {
			continue
		}
		if first != "" {
			return fmt.Sprintf("partition fields %s and %s are both decimals, which cannot be written to one manifest", first, field.Name)
		}
		first = field.Name
	}

	return ""
}

// unwritableNames looks for partition fields whose name cannot stand in the
// schema of a manifest, which takes letters, digits and underscores.
func unwritableNames(spec iceberg.PartitionSpec) string {
	for _, field := range spec.Fields() {
		for i, r := range field.Name {
			letter := r == '_' || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')
			if digit := r >= '0' && r <= '9'; !letter && (!digit || i == 0) {
				return fmt.Sprintf("partition field %q has a name that cannot be written to a manifest", field.Name)
			}
		}
	}

	return ""
}
