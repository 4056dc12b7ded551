// Measures how fast franz-go writes or reads records of about 1 KB with its default settings.
//
// Arguments: produce|consume BOOTSTRAP,... TOPIC RECORDS RECORD-BYTES
//
// Out: the records and the seconds that they took.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if err := work(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func work(arguments []string) error {
	records, err := strconv.Atoi(arguments[3])
	if err != nil {
		return err
	}
	seeds := kgo.SeedBrokers(strings.Split(arguments[1], ",")...)
	if arguments[0] == "consume" {
		return consume(seeds, arguments[2], records)
	}
	size, err := strconv.Atoi(arguments[4])
	if err != nil {
		return err
	}
	values, err := valuesOf(size)
	if err != nil {
		return err
	}
	return produce(seeds, arguments[2], records, values)
}

// valuesOf reads the values of records from the input, one on each line.
func valuesOf(size int) ([][]byte, error) {
	var values [][]byte
	lines := bufio.NewReaderSize(os.Stdin, size+1)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		values = append(values, line[:len(line)-1])
	}
}

func produce(seeds kgo.Opt, topic string, records int, values [][]byte) error {
	client, err := kgo.NewClient(
		seeds, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	var failed atomic.Value
	began := time.Now()
	for number := 0; number < records; number++ {
		client.Produce(context.Background(), &kgo.Record{Value: values[number%len(values)]}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(err)
			}
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		return err
	}
	if err, ok := failed.Load().(error); ok {
		return err
	}
	fmt.Println(records, time.Since(began).Seconds())
	return nil
}

func consume(seeds kgo.Opt, topic string, records int) error {
	client, err := kgo.NewClient(
		seeds, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	began := time.Now()
	for read := 0; read < records; {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return err
		}
		read += fetches.NumRecords()
	}
	fmt.Println(records, time.Since(began).Seconds())
	return nil
}
