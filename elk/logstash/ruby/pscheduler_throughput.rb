# Turns a run of a throughput test, which pScheduler's http archiver sends, into the documents that `ccmix index` writes: of
# the run, its groups, flows and intervals. Plain Ruby without Logstash, so that it can be tested by itself.
#
# Fields and their units: docs/reference/index-fields.md. pScheduler's are bits/s, bytes, seconds, and microseconds for RTTs.

require "digest"
require "json"
require "time"

module PschedulerThroughput
  ID_DIGITS = 16
  ECS_VERSION = "8.17.0"
  LONGEST_REASON = 300 # characters
  NO_CCA = "-".freeze # for other protocols than TCP, and for flows of an unknown CCA

  # A document: its index, its id there, and its fields.
  Document = Struct.new(:index, :id, :fields)

  # The documents of a message. Raises Unusable if it is not a finished run of a throughput test.
  def self.documents(message)
    Run.new(message).documents
  end

  # Raised for a message that gives no documents; the text has the reason.
  class Unusable < StandardError; end

  # A stream of the test, with the values of both ends.
  Stream = Struct.new(:number, :name, :cca, :group, :goodput_bps, :throughput_bps, :bytes, :retransmits, :rtt_s,
                      keyword_init: true)

  # The run of a message.
  class Run
    def initialize(message)
      type = message.dig("test", "type")
      raise Unusable, "a test of type #{type || "(none)"}, not throughput" unless type == "throughput"
      raise Unusable, "no run" unless message["id"] && message.dig("run", "start-time")

      @message = message
      @spec = message.dig("test", "spec") || {}
      @result = message["result"] || message.dig("run", "result-merged") || {}
      @begin = Time.parse(message.dig("run", "start-time"))
      @client = iperf3_client
      @streams = succeeded? ? Streams.new(@result, @spec, @client, transport).to_a : []
    end

    def documents
      documents = [document("runs", 0, run)]
      groups.each_with_index { |group, row| documents << document("groups", row, group) }
      @streams.each { |stream| documents << document("flows", stream.number, flow(stream)) }
      documents + intervals
    end

    private

    def succeeded?
      @result["succeeded"] == true && @result["summary"].is_a?(Hash)
    end

    def run_id
      @run_id ||= digest(@message["id"])
    end

    def digest(text)
      Digest::SHA256.hexdigest(text.to_s)[0, ID_DIGITS]
    end

    # Samples are in an index for each month, by the begin of their run; all other documents are in a single index.
    def document(kind, row, fields, at: @begin, samples: false)
      index = samples ? "ccmix-#{kind}-#{@begin.utc.strftime('%Y.%m')}" : "ccmix-#{kind}"
      identity = { "@timestamp" => at.utc.iso8601(3), "event.dataset" => "ccmix.#{kind}", "ccmix.row" => row }
      identity.merge!("ecs.version" => ECS_VERSION, "event.module" => "ccmix") unless samples
      Document.new(index, "#{run_id}-#{row}", identity.merge(context).merge(fields).compact)
    end

    # The fields that every document of the run has, as in harness/ccmix/index/context.py.
    def context
      @context ||= {
        "ccmix.campaign.id" => digest(@message.dig("task", "href") || @message.dig("run", "task-href")),
        "ccmix.campaign.name" => "pscheduler",
        "ccmix.run.id" => run_id,
        "ccmix.run.iteration" => reference["iteration"] || 1,
        "ccmix.entry" => entry,
        "ccmix.condition.name" => condition,
        "ccmix.condition.key" => key = "#{entry} #{condition} #{mix} #{streams_asked}",
        "ccmix.condition.known_key" => key, # of a real path, all settings are known
        "ccmix.mix" => mix,
        "ccmix.streams" => streams_asked,
        # Nothing sampled the hosts, so it is not known whether they limited the run
        "ccmix.validity.status" => "unknown",
        "ccmix.path.kind" => "pscheduler",
        "ccmix.path.pair" => "#{source} > #{destination}",
        "source.address" => source,
        "destination.address" => destination,
        "destination.domain" => destination
      }
    end

    # The fields that ccmix wrote into the task that it posted; other tasks don't have them.
    def reference
      given = @message["reference"]
      ccmix = given["ccmix"] if given.is_a?(Hash)
      ccmix.is_a?(Hash) ? ccmix : {}
    end

    def entry
      reference["entry"] || "pscheduler"
    end

    def condition
      settings = reference["condition"]
      return "all" unless settings.is_a?(Hash) && !settings.empty?

      settings.map { |key, value| "#{key}=#{value}" }.join(",")
    end

    def mix
      ccas = @streams.map(&:cca).compact.uniq
      return ccas.join(",") unless ccas.empty?

      transport == "tcp" ? @spec["congestion"] || NO_CCA : NO_CCA
    end

    # As iperf3 reports it, otherwise as the test's specification has it.
    def transport
      protocol = @client&.dig("start", "test_start", "protocol") || (@spec["udp"] ? "udp" : "tcp")
      protocol.to_s.downcase
    end

    def streams_asked
      @spec["parallel"] || 1
    end

    # The sender and the receiver of the data: in a reversed test, the spec's destination sends to its source.
    def source
      ends[0]
    end

    def destination
      ends[1]
    end

    def ends
      asked = [@spec["source"] || participants[0] || "-", @spec["dest"] || participants[1] || "-"]
      @spec["reverse"] ? asked.reverse : asked
    end

    def participants
      @message["participants"] || []
    end

    def run
      ended = @message.dig("run", "end-time")
      ended &&= Time.parse(ended)
      {
        "event.start" => @begin.utc.iso8601(3),
        "event.end" => ended&.utc&.iso8601(3),
        "event.duration" => ended && ((ended - @begin) * 1e9).round,
        "event.outcome" => succeeded? ? "unknown" : "failure",
        "event.reason" => [reason],
        "ccmix.validity.kinds" => ["probe"],
        "ccmix.validity.counted" => false,
        "ccmix.generator" => "pscheduler",
        "ccmix.generator_version" => [@message.dig("tool", "name"), @message.dig("tool", "version")].compact.join(" "),
        "ccmix.duration_s" => seconds(@spec["duration"]),
        "ccmix.omit_s" => seconds(@spec["omit"]) || 0.0,
        "ccmix.path.machine" => "hosts",
        "network.transport" => transport,
        "ccmix.goodput_bps" => sum(&:goodput_bps),
        "ccmix.fairness" => fairness,
        "network.bytes" => sum(&:bytes)
      }
    end

    def reason
      return "nobody looked at the sockets of #{source}, where ccmix has no shell" if succeeded?

      said = @result["error"] || @message.dig("run", "errors") || @message.dig("run", "state-display") || "no result"
      said.to_s.split.join(" ")[0, LONGEST_REASON]
    end

    def sum(streams = @streams, &number)
      numbers = streams.map(&number).compact
      numbers.empty? ? nil : numbers.sum
    end

    # Jain's index, RFC 5166 section 2.3.
    def fairness
      rates = @streams.map(&:goodput_bps)
      squares = rates.sum { |rate| rate * rate }
      rates.sum**2 / (rates.size * squares) if squares.positive?
    end

    def share(goodput_bps)
      whole = sum(&:goodput_bps)
      goodput_bps / whole if whole&.positive?
    end

    def groups
      @streams.group_by(&:group).map do |name, streams|
        goodput_bps = sum(streams, &:goodput_bps)
        {
          "ccmix.validity.counted" => false,
          "ccmix.group.name" => name, "ccmix.group.streams" => streams.size, "ccmix.cca" => streams.first.cca,
          "ccmix.goodput_bps" => goodput_bps, "ccmix.throughput_bps" => sum(streams, &:throughput_bps),
          "ccmix.goodput_share" => share(goodput_bps), "ccmix.rtt_median_s" => median(streams.map(&:rtt_s).compact)
        }
      end
    end

    def median(numbers)
      return if numbers.empty?

      sorted = numbers.sort
      (sorted[(sorted.size - 1) / 2] + sorted[sorted.size / 2]) / 2.0
    end

    def flow(stream)
      of_stream(stream).merge(
        "ccmix.flow.stream" => stream.number, "ccmix.goodput_bps" => stream.goodput_bps,
        "ccmix.throughput_bps" => stream.throughput_bps, "ccmix.goodput_share" => share(stream.goodput_bps),
        "ccmix.rtt_median_s" => stream.rtt_s, "ccmix.retransmits" => stream.retransmits,
        "network.bytes" => stream.bytes, "network.transport" => transport
      )
    end

    def of_stream(stream)
      { "ccmix.group.name" => stream.group, "ccmix.cca" => stream.cca,
        "ccmix.flow.id" => "#{source}:#{stream.number}", "host.name" => source }
    end

    # The rate that the sender sent in each interval: pScheduler keeps no other rates over time.
    def intervals
      omit_s = seconds(@spec["omit"]) || 0.0
      rows = (succeeded? ? @result["intervals"] || [] : []).flat_map do |interval|
        (interval["streams"] || []).first(@streams.size).each_with_index.map { |said, at| [said, @streams[at]] }
      end
      rows.each_with_index.map do |(said, stream), row|
        elapsed_s = said["end"] + (said["omitted"] ? 0.0 : omit_s)
        fields = of_stream(stream).merge(
          "ccmix.elapsed_s" => elapsed_s, "ccmix.seconds" => said["end"] - said["start"],
          "ccmix.omitted" => said["omitted"] == true, "ccmix.goodput_bps" => said["throughput-bits"],
          "ccmix.retransmits" => said["retransmits"]
        )
        document("intervals", row, fields, at: @begin + elapsed_s, samples: true)
      end
    end

    # A duration of ISO 8601 up to days, as pScheduler writes them.
    def seconds(text)
      match = /\AP(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?\z/.match(text.to_s)
      match && match.captures.zip([86_400, 3_600, 60, 1]).sum { |number, unit| number.to_f * unit }
    end

    # The JSON of the sending iperf3, which comes after its command line in a participant's diagnostics.
    def iperf3_client
      (@message.dig("run", "result-full") || []).each do |one|
        text = one["diags"].to_s if one.is_a?(Hash)
        at = text&.index("\n{")
        parsed = at && parse(text[(at + 1)..])
        return parsed if parsed.is_a?(Hash) && parsed.dig("start", "connecting_to")
      end
      nil
    end

    def parse(text)
      JSON.parse(text[0..text.rindex("}")])
    rescue JSON::ParserError
      nil
    end
  end

  # The streams of a result, with rates from iperf3's JSON if it is there, as ccmix takes them, otherwise from pScheduler's.
  class Streams
    def initialize(result, spec, client, transport)
      @transport = transport
      @summary = result["summary"]
      @spec = spec
      @told = (client&.dig("end", "streams") || []).each_with_object({}) do |stream, told|
        told[stream.dig("sender", "socket").to_s] = stream
      end
      @client = client
    end

    def to_a
      # iperf3mix adds the sum of each group, for pScheduler's text output
      streams = (@summary["streams"] || []).reject { |stream| stream["stream-id"].to_s.start_with?("SUM:") }
      streams.each_with_index.map { |stream, number| one(stream, number) }
    end

    private

    def one(stream, number)
      id, named_cca, = stream["stream-id"].to_s.split(":")
      id = id.sub(/\A0+(?=\d)/, "")
      told = @told[id]
      cca = tcp? ? cca(id, named_cca, told) : NO_CCA
      throughput_bps = stream["throughput-bits"].to_f
      Stream.new(
        number: number, name: id, cca: cca, group: tcp? ? cca || "-" : @transport, throughput_bps: throughput_bps,
        goodput_bps: told&.dig("receiver", "bits_per_second") || stream["receiver-throughput-bits"] ||
                     throughput_bps * share_received,
        bytes: stream["throughput-bytes"], retransmits: stream["retransmits"],
        rtt_s: stream["rtt"] && stream["rtt"] / 1e6
      )
    end

    def tcp?
      @transport == "tcp"
    end

    # iperf3mix names each stream's CCA; stock iperf3 has a single CCA for all streams.
    def cca(id, named, told)
      (@summary["congestion"] || {})[id] || named || told&.dig("sender", "congestion") ||
        @client&.dig("end", "sender_tcp_congestion") || only_one_asked
    end

    def only_one_asked
      @spec["congestion"] unless @spec["congestion"].to_s.match?(/[,:@+]/)
    end

    def share_received
      whole = @summary["summary"] || {}
      sent = whole["throughput-bits"].to_f
      received = whole["receiver-throughput-bits"]
      sent.positive? && received ? received / sent : 1.0
    end
  end
end
