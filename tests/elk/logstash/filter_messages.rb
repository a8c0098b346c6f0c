# Runs Logstash's filter on messages, a line of JSON each, and prints the events that it makes, a line each.
#
#   ruby filter_messages.rb FILTER.rb <MESSAGES
#
# Logstash itself is not needed: its event is stood in for by the part that the filter uses, and the script is evaluated as
# Logstash's ruby filter does it.

require "json"
require "time"

module LogStash
  # As Logstash's own does, a new event gets a version, and a moment that it can read.
  class Event
    def initialize(fields = {})
      @fields = { "@version" => "1" }.merge(fields)
      @fields["@timestamp"] = Time.iso8601(@fields["@timestamp"]).utc.iso8601(3) if @fields["@timestamp"]
      @metadata = {}
    end

    def to_hash
      @fields
    end

    def remove(name)
      @fields.delete(name)
    end

    def set(name, value)
      raise ArgumentError, name unless name =~ /\A\[@metadata\]\[(\w+)\]\z/

      @metadata[Regexp.last_match(1)] = value
    end

    def tag(name)
      (@fields["tags"] ||= []) << name
    end

    def to_line
      JSON.generate(@fields.merge("@metadata" => @metadata))
    end
  end
end

script = Object.new
script.instance_eval(File.read(ARGV[0]), ARGV[0])
script.register({})
$stdin.each_line do |line|
  script.filter(LogStash::Event.new(JSON.parse(line))).each { |event| puts event.to_line }
end
